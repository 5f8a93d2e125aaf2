"""How much is measured, and that nothing promised is left out."""

from bench.__main__ import SUITES
from bench.plan import FULL, MIB, QUICK, size_name


def test_the_whole_run_covers_the_sizes_that_bars_are_set_for():
    assert FULL.sizes == (16 * MIB, 256 * MIB, 1024 * MIB)
    assert (FULL.many, FULL.checkpoints, FULL.pairs, FULL.loop_rounds) == (10_000, 1_000, 10, 10)


def test_the_smoke_test_is_smaller_in_everything():
    assert QUICK.sizes[-1] < FULL.sizes[-1]
    smaller = ("pairs", "loop_bytes", "loop_rounds", "blocked_bytes", "large_bytes", "starts", "many", "checkpoints")
    assert all(getattr(QUICK, name) < getattr(FULL, name) for name in smaller)


def test_sizes_have_names():
    assert [size_name(size) for size in FULL.sizes] == ["16 MiB", "256 MiB", "1 GiB"]


def test_every_suite_that_can_be_asked_for_exists():
    from importlib.util import find_spec

    assert all(find_spec(f"bench.suites.{suite}") for suite in SUITES)
