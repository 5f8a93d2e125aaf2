"""What a save adds to a loop: half of the best peer's, inside a small noise, or not to be told."""

import pytest

from bench.suites.loop import verdict
from bench.training_rounds import NONE, OURS, Found, Round


@pytest.mark.parametrize(
    ("ours", "best", "noise", "holds"),
    [
        (0.10, 0.30, 0.05, True),  # less than half of the best peer's
        (0.20, 0.30, 0.05, False),
        (0.04, 0.03, 0.05, True),  # inside the noise, whatever the peer does
        (0.20, -0.1, 0.05, False),  # a peer's price that noise made negative is no excuse
        (0.04, 0.03, 0.50, None),  # on a machine this busy nothing can be told
    ],
)
def test_the_bar_of_the_loop(ours, best, noise, holds):
    found, reason = verdict(ours, best, noise, plain_s=1.0)
    assert found is holds
    assert "nois" in reason


def test_a_rounds_price_is_what_it_took_beyond_its_neighbours_that_saved_nothing():
    def rounds(*walls: float) -> list[Round]:
        return [Round(0.0, wall, 0.0) for wall in walls]

    found = Found(
        {NONE[0]: rounds(1.0, 3.0), OURS: rounds(1.5, 3.5), NONE[1]: rounds(1.2, 3.4)},
        memcpy_s=[],
        boundary_s=[],
        step_s=0.1,
        size_bytes=0,
    )
    assert found.price(OURS, lambda each: each.wall_s) == pytest.approx([0.4, 0.3])
    assert found.noise() == pytest.approx([0.2, 0.4])
