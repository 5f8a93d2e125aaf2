"""The worker's command line."""

from __future__ import annotations

import pytest

from app.command import parse
from app.contract import Refusal


def test_countdown_is_the_tutorials_by_default():
    flags = parse(["countdown"])
    assert (flags.steps, flags.save_every, flags.step_delay) == (100, 5, 1.0)


@pytest.mark.parametrize(
    "arguments", [["unknown"], ["countdown", "--steps", "0"], ["countdown", "--steps", "ten"], ["--nope"]]
)
def test_a_bad_flag_is_refused_with_the_usage(arguments):
    with pytest.raises(Refusal, match="usage"):
        parse(arguments)


def test_keeping_fewer_than_two_is_refused():
    with pytest.raises(Refusal, match="--keep"):
        parse(["countdown", "--keep", "1"])


@pytest.mark.parametrize("text", ["abc", "-1", "3600", "nan", "inf"])
def test_a_delay_that_is_no_number_of_seconds_is_refused_in_the_readers_words(text):
    with pytest.raises(Refusal, match=f"'{text}' is not a number of seconds"):
        parse(["countdown", f"--step-delay={text}"])
