"""The table: bars before comparisons, numbers in units that suit them, reasons beside what was not measured."""

import pytest

from bench.rows import compare, unmeasured
from bench.table import amount, render

ROWS = [
    compare("save", "s", [0.010], [0.020], "torch.save"),
    compare("save", "s", [0.030], [0.020], "raw write", bar=1.0),
    unmeasured("blocked", "s", "memcpy", 0.05, "not built yet"),
]


def test_bars_come_first_and_say_whether_they_hold():
    _, first, second, third = render(ROWS).splitlines()
    assert "raw write" in first
    assert first.endswith("NO")
    assert second.endswith("not measured (not built yet)")
    assert "torch.save" in third


def test_markdown_has_a_rule_and_equal_columns():
    lines = render(ROWS, markdown=True).splitlines()
    assert set(lines[1]) == {"|", "-"}
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "s", "-"),
        (1.234, "s", "1.23 s"),
        (0.0123, "s", "12.3 ms"),
        (0.0000456, "s", "45.6 us"),
        (-0.5, "s", "-500 ms"),
        (0.0, "s", "0 us"),
        (1126.4, "MiB", "1126 MiB"),
        (0.02, "CPU s", "20 CPU ms"),
    ],
)
def test_amounts_are_short(value, unit, text):
    assert amount(value, unit) == text
