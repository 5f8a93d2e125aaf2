"""The worker's command line, and the workloads that it finds."""

from __future__ import annotations

import sys
import textwrap

import pytest

from app import workloads
from app.command import HelpShown, parse
from app.contract import Refusal


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A second folder of workloads."""
    monkeypatch.setattr(workloads, "__path__", [*workloads.__path__, str(tmp_path)])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("app.workloads."):
            del sys.modules[name]


def test_countdown_is_the_tutorials_by_default():
    flags = parse(["countdown"]).flags
    assert (flags.steps, flags.save_every, flags.step_delay_s) == (100, 5, 1.0)


def test_without_a_name_it_is_the_language_model_with_flags_of_its_own():
    command = parse(["--size", "small", "--steps", "7", "--batch-size", "3"])
    assert (command.flags.steps, command.flags.own.size) == (7, "small")
    assert command.workload.identity(command.flags)["batch_size"] == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["unknown"],
        ["countdown", "--steps", "0"],
        ["countdown", "--steps", "ten"],
        ["--nope"],
        ["--size", "huge"],
        ["countdown", "--size", "tiny"],
        ["--steps", "3", "countdown"],
    ],
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


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        *(("--learning-rate", text) for text in ("nan", "inf", "-1", "0", "fast")),
        *(("--seed", text) for text in ("-1", str(2**63), str(10**30), "1" * 5000, "x")),
        *(("--steps", text) for text in (str(10**12), "1" * 5000, "\uff11")),
    ],
)
def test_a_number_that_training_could_not_use_is_refused_by_its_flags_name(flag, text):
    with pytest.raises(Refusal, match=f"argument {flag}: .* is not a ") as refusal:
        parse([f"{flag}={text}"])
    assert "Traceback" not in str(refusal.value)


def test_the_largest_seed_is_one():
    assert parse([f"--seed={2**63 - 1}"]).flags.seed == 2**63 - 1


def test_a_language_model_on_other_text_is_another_work():
    identities = [(c := parse(given)).workload.identity(c.flags) for given in ([], ["--data=a"], ["--data=b"])]
    assert [each["data"] for each in identities] == [None, "a", "b"]


def test_asking_for_help_lists_the_workloads_and_the_flags_of_the_one_named(capsys):
    with pytest.raises(HelpShown):
        parse(["language_model", "--help"])
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("--size", "--save-every", "countdown, language_model"))


def test_a_module_in_the_folder_is_a_workload_and_its_flags_are_its_own(folder):
    (folder / "mine.py").write_text(
        textwrap.dedent("""
            STEPS, SAVE_EVERY, STEP_DELAY_S = 9, None, 0.0
            def add_flags(parser):
                parser.add_argument("--width", type=int, default=2)
            def identity(flags):
                return {"workload": "mine", "width": flags.own.width}
            def run(flags, start): ...
        """)
    )
    command = parse(["mine", "--width", "5"])
    assert command.flags.steps == 9
    assert command.workload.identity(command.flags) == {"workload": "mine", "width": 5}
    with pytest.raises(Refusal, match="--width"):
        parse(["countdown", "--width", "5"])


def test_finding_the_workloads_imports_none_of_them(folder):
    (folder / "broken.py").write_text("raise RuntimeError('imported')")
    assert "broken" in workloads.names()
    assert parse(["countdown"]).flags.steps == 100


def test_a_module_that_lacks_a_part_is_refused_by_the_parts_name(folder):
    (folder / "half.py").write_text("STEPS = 3\ndef run(flags, start): ...\n")
    with pytest.raises(Refusal, match="half is no workload: it lacks SAVE_EVERY, STEP_DELAY_S, add_flags, identity"):
        parse(["half"])
