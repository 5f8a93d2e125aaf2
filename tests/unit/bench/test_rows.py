"""What a row says: the ratio, whether the bar holds, and silence about what was not measured."""

import json
from dataclasses import asdict

import pytest

from bench.rows import Row, compare, missed, quartiles, unmeasured


def test_the_ratio_is_the_median_of_the_pairs_ratios_so_that_a_busy_minute_counts_on_both_sides():
    row = compare("save", "s", [1.0, 10.0, 1.2], [2.0, 20.0, 2.0], "peer")
    assert row.ratio == pytest.approx(0.5)
    assert (row.ours, row.reference, row.pairs) == (1.2, 2.0, 3)


@pytest.mark.parametrize(("bar", "holds"), [(0.5, True), (0.49, False), (None, None)])
def test_a_bar_is_the_largest_ratio_that_holds_and_a_comparison_promises_nothing(bar, holds):
    assert compare("save", "s", [1.0, 1.0], [2.0, 2.0], "peer", bar=bar).holds is holds


def test_what_was_not_measured_neither_holds_nor_is_missed():
    row = unmeasured("blocked", "s", "memcpy", 0.05, "not built yet")
    assert (row.ours, row.ratio, row.holds) == (None, None, None)
    assert row.reason
    assert missed([row]) == []


def test_a_reference_of_nothing_gives_no_ratio_rather_than_an_endless_one():
    assert compare("save", "s", [1.0], [0.0], "peer", bar=1.0).ratio is None


def test_missed_bars_are_those_measured_and_not_held():
    rows = [compare("a", "s", [1.0], [2.0], "p", bar=1.0), compare("b", "s", [3.0], [2.0], "p", bar=1.0)]
    assert [row.name for row in missed(rows)] == ["b"]


def test_a_row_survives_json():
    row = compare("save", "s", [1.0, 3.0, 2.0], [2.0, 2.0, 2.0], "peer", bar=1.0)
    loaded = Row(**json.loads(json.dumps(asdict(row))))
    assert (loaded.name, loaded.ratio, loaded.holds) == (row.name, row.ratio, row.holds)
    fields = ["name", "unit", "ours", "reference", "reference_name", "ratio", "bar", "holds"]
    assert list(asdict(row))[: len(fields)] == fields


def test_the_spread_is_the_quartiles():
    assert quartiles([4.0, 1.0, 3.0, 2.0, 5.0]) == (2.0, 4.0)
    assert quartiles([7.0]) == (7.0, 7.0)
