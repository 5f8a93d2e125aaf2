"""The command line itself: help, exit codes, Ctrl-C, and how little it loads to say its help."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import ops.cli
from ops.errors import MisconfiguredError, UnreachableError
from ops.model import State
from tests.unit.ops.fakes import World, execution, line

TERMINAL = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}


@pytest.fixture
def gpujob(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ops.cli, "_connect", lambda stack: world.cloud)
    return lambda *arguments: CliRunner().invoke(ops.cli.app, list(arguments), env=TERMINAL)


def test_help_names_every_command_and_exit_code(gpujob):
    said = gpujob("--help").output
    for word in ("run", "status", "logs", "cancel", "recover", "rehearse", "local", "Exit codes: 0 done. 1"):
        assert word in said


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("run", ["--wait", "--arg", "--alongside", "--stack"]),
        ("status", ["EXECUTION", "--stack"]),
        ("logs", ["EXECUTION", "--follow", "--stack"]),
        ("cancel", ["EXECUTION", "--stack"]),
        ("recover", ["--stack", "--config-file"]),
    ],
)
def test_the_help_of_a_command_names_its_options(gpujob, command: str, options: list[str]):
    said = gpujob(command, "--help").output
    assert [option for option in options if option not in said] == []


def test_help_loads_none_of_googles_clients():
    script = (
        "import sys; from typer.testing import CliRunner; import ops.cli\n"
        "assert CliRunner().invoke(ops.cli.app, ['--help']).exit_code == 0\n"
        "late = {'google', 'grpc', 'requests', 'pulumi', 'torch', 'localcloud'}\n"
        "print([name for name in sys.modules if name.split('.')[0] in late])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_run_prints_the_name_alone_on_stdout(gpujob):
    done = gpujob("run", "--arg", "countdown", "--arg=--steps", "--arg", "9")
    assert (done.exit_code, done.stdout) == (0, "job-new\n")
    assert "gpujob cancel job-new" in done.stderr


def test_run_passes_its_arguments_on(gpujob, world: World):
    gpujob("run", "--arg", "countdown", "--arg=--steps", "--arg", "9")
    assert world.runs.started == [["countdown", "--steps", "9"]]


@pytest.mark.parametrize(("state", "code"), [(State.SUCCEEDED, 0), (State.FAILED, 1), (State.CANCELLED, 1)])
def test_run_wait_exits_with_0_only_if_the_execution_succeeded(gpujob, world: World, state: State, code: int):
    world.clock.at = {3.0: lambda: world.runs.put(execution("job-new", state))}
    done = gpujob("run", "--wait")
    assert done.exit_code == code
    assert f"job-new: {state}" in done.output


def test_ctrl_c_ends_the_watch_and_not_the_execution(gpujob, world: World):
    def interrupted() -> None:
        raise KeyboardInterrupt

    world.clock.at = {3.0: interrupted}
    done = gpujob("run", "--wait")
    assert done.exit_code == 130
    assert "Execution job-new goes on, and is billed" in done.output
    assert "gpujob cancel job-new" in done.output
    assert world.runs.known["job-new"].state is State.RUNNING


def test_logs_follows_until_the_end(gpujob, world: World):
    world.runs.put(execution())
    world.logs.stored = [line(1, 0), line(2, 1)]
    world.clock.at = {3.0: lambda: world.runs.put(execution(state=State.SUCCEEDED))}
    done = gpujob("logs", "--follow")
    assert done.exit_code == 0
    assert [text.split()[-1] for text in done.stdout.splitlines()] == ["1", "2"]


def test_an_expected_failure_is_a_paragraph_and_a_code(gpujob, world: World, monkeypatch: pytest.MonkeyPatch):
    done = gpujob("logs", "job-gone")
    assert (done.exit_code, done.stderr) == (3, "gpujob: Job job has no execution job-gone.\n")
    world.runs.failing = [UnreachableError("The local cloud does not answer.")]
    assert gpujob("status").exit_code == 4

    def no_stack(stack: str | None) -> None:
        raise MisconfiguredError("No stack is selected.")

    monkeypatch.setattr(ops.cli, "_connect", no_stack)
    done = gpujob("status")
    assert (done.exit_code, done.stderr) == (2, "gpujob: No stack is selected.\n")


def test_an_unknown_option_is_wrong_use(gpujob):
    assert gpujob("run", "--wiat").exit_code == 2


def test_recover_does_nothing_to_a_stack_that_was_not_named(gpujob, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GPUJOB_STACK", raising=False)
    done = gpujob("recover")
    assert (done.exit_code, done.stderr) == (
        2,
        "gpujob: Which stack? Nothing was changed. Give --stack or set GPUJOB_STACK.\n",
    )
