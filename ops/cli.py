"""The `gpujob` command line: what can be typed, and nothing else."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops import local
from ops.checkpoints.cli import app as checkpoints
from ops.errors import OpsError
from ops.reporting import reported, say

if TYPE_CHECKING:
    from rich.console import Console

    from ops.cloud import Cloud

_MEANINGS = {0: "done", **{error.exit_code: error.meaning for error in OpsError.__subclasses__()}, 130: "Ctrl-C"}
EPILOG = f"Exit codes: {'. '.join(f'{code} {meaning}' for code, meaning in _MEANINGS.items())}."

app = typer.Typer(
    name="gpujob",
    help="Start, watch, read and cancel executions of the GPU job that a Pulumi stack declares.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    add_completion=False,
)
app.add_typer(local.app, name="local")
app.add_typer(checkpoints, name="checkpoints")

Stack = Annotated[
    str | None,
    typer.Option(
        "--stack", "-s", metavar="NAME", help="Pulumi stack. Default: $GPUJOB_STACK, else the selected stack."
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config-file", help="The stack's configuration, where it is not Pulumi.STACK.yaml.")
]
ExecutionName = Annotated[str | None, typer.Argument(metavar="[EXECUTION]", help="Short name of an execution.")]


@app.command()
def run(
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it ends; exit 0 only if it succeeded.")] = False,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "--arg", metavar="ARG", help="Argument for the worker, in order; all together replace the job's own."
        ),
    ] = None,
    alongside: Annotated[bool, typer.Option("--alongside", help="Start even while another execution runs.")] = False,
    stack: Stack = None,
) -> None:
    """Start an execution."""
    with reported():
        from ops.start import start

        cloud = _connect(stack)
        name = start(cloud, arg or [], say, alongside=alongside)
        say(f"Started execution {name} of job {cloud.outputs.job_name}.{_exposure(cloud)}")
        if wait:
            _wait(cloud, name)
        else:
            say(f"Watch it: gpujob status {name}, gpujob logs --follow {name}. End it: gpujob cancel {name}.")
        typer.echo(name)


@app.command()
def status(execution: ExecutionName = None, stack: Stack = None) -> None:
    """Show an execution's tasks: attempt, retries left, exit code, last durable step.

    Without EXECUTION: all that run, else the newest.
    """
    with reported():
        from ops.status import show_status

        show_status(_connect(stack), execution, _console())


@app.command()
def logs(
    execution: ExecutionName = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the execution ends.")] = False,
    stack: Stack = None,
) -> None:
    """Print an execution's log (default: the newest one's): severity, time, task/attempt, message."""
    with reported():
        from ops import logs as log
        from ops.choose import newest, short_name
        from ops.text import line_text

        cloud = _connect(stack)
        chosen = cloud.runs.execution(short_name(cloud, execution)) if execution else newest(cloud)
        for line in log.follow(cloud, chosen, say) if follow else log.read(cloud, chosen):
            typer.echo(line_text(line))


@app.command()
def cancel(execution: ExecutionName = None, stack: Stack = None) -> None:
    """End a running execution, wait until it has ended, and say which checkpoint remains."""
    with reported():
        from ops.cancel import cancel as cancel_execution

        cancel_execution(_connect(stack), execution, typer.echo)


@app.command()
def recover(
    stack: Stack = None,
    config_file: ConfigFile = None,
) -> None:
    """Make a stack whole again after its `pulumi up` was killed; deletes nothing."""
    with reported():
        from ops.recover import Recovery
        from ops.stack import named_stack, tree

        Recovery(tree(), named_stack(stack), config_file, say).run()


@app.command()
def promote(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Stack whose image is proved, such as dev.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Stack whose file is to pin it, such as prod.")],
) -> None:
    """Pin one stack's image, by digest, in another stack's file; deploys nothing."""
    with reported():
        from ops.promote import promote_between

        promote_between(source, target, say)


@app.command()
def leftovers(
    stack: Stack = None,
    config_file: ConfigFile = None,
) -> None:
    """Say whether anything of a stack is still in the cloud after `pulumi destroy`; deletes nothing. Exit 1 if so."""
    with reported():
        from ops.leftovers import look_for_leftovers
        from ops.promote import stack_file
        from ops.stack import named_stack

        look_for_leftovers(config_file or stack_file(named_stack(stack)), say)


@app.command()
def rehearse() -> None:
    """Deploy into the local cloud, run, preempt, kill, resume, prove, destroy."""
    with reported():
        from localcloud.toolchain.steps import SetupError
        from ops.errors import MisconfiguredError, NotSucceededError
        from ops.rehearsal.commands import RehearsalError
        from ops.rehearsal.script import rehearse as rehearse_in
        from ops.stack import tree

        try:
            code = rehearse_in(tree())
        except SetupError as error:
            raise MisconfiguredError(str(error)) from error
        except RehearsalError as error:
            raise NotSucceededError(f"The rehearsal ended early. {error}") from error
    raise typer.Exit(code)


def main() -> None:
    """Entry point of the console script."""
    app()


def _connect(stack: str | None) -> "Cloud":
    # Google's clients take a second to import: only commands that use them pay for it.
    from ops.cloud import connect

    return connect(stack)


def _wait(cloud: "Cloud", name: str) -> None:
    from ops.status import show_execution
    from ops.watch import require_success, watch

    try:
        ended = watch(cloud, name, say)
    except KeyboardInterrupt:
        say(
            f"\nNo longer watching. Execution {name} goes on, and is billed, without this command. "
            f"End it: gpujob cancel {name}."
        )
        raise typer.Exit(130) from None
    show_execution(cloud, ended, _console())
    require_success(ended)


def _exposure(cloud: "Cloud") -> str:
    outputs = cloud.outputs
    if outputs.exposure_gpu_hours is None or outputs.exposure_usd is None:
        return ""
    return f" Worst case: {outputs.exposure_gpu_hours:g} GPU hours, {outputs.exposure_usd:.2f} USD."


def _console() -> "Console":
    from rich.console import Console

    console = Console()
    # Piped output is for grep: rows must not be folded at 80 columns.
    return console if console.is_terminal else Console(width=200)
