"""`python -m localcloud`: start, stop, look, interrupt.

Exit codes: 0 done; 2 wrong use; 3 refused; 4 no local cloud answers.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from localcloud import client
from localcloud.jsontypes import Json
from localcloud.settings import DEFAULT_PORT, DEFAULT_STATE_DIR, HOST, Settings
from localcloud.settings import gpu_quota as quota_of

app = typer.Typer(
    help="Google Cloud on this machine: the APIs that a deployment needs, and an executor that runs its jobs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Port = Annotated[int, typer.Option(min=1, max=65535, help="Port of the local cloud on 127.0.0.1.")]
Execution = Annotated[
    str | None, typer.Option(help="Short or full name of an execution; every running one when left out.")
]
Task = Annotated[int | None, typer.Option(min=0, help="Index of a task; every one when left out.")]
_EXIT_REFUSED, _EXIT_NOT_RUNNING = 3, 4


def _fail(error: Exception) -> typer.Exit:
    typer.echo(f"{client.REFUSAL_PREFIX}{error}", err=True)
    return typer.Exit(_EXIT_NOT_RUNNING if isinstance(error, client.NotRunningError) else _EXIT_REFUSED)


def _ask(port: int, method: str, path: str, body: Json | None = None) -> Json:
    try:
        return client.ask(port, method, path, body)
    except client.LocalCloudError as error:
        raise _fail(error) from error


@app.command()
def start(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 picks a free one.")] = DEFAULT_PORT,
    state: Annotated[
        Path, typer.Option(help="Directory that holds everything; made where it is missing.")
    ] = DEFAULT_STATE_DIR,
    foreground: Annotated[bool, typer.Option("--foreground", help="Serve in this process until SIGTERM.")] = False,
    record: Annotated[Path | None, typer.Option(help="Append each request to this file as a JSON line.")] = None,
    grace_s: Annotated[float, typer.Option(help="Seconds between SIGTERM and SIGKILL.")] = 10.0,
    gpu_quota: Annotated[
        int | None, typer.Option(min=0, help="GPUs of each type that one project may use; the usual ones if left out.")
    ] = None,
    gpu_timeout_ceiling_s: Annotated[int, typer.Option(help="Longest task timeout of a GPU job.")] = 168 * 3600,
) -> None:
    """Start a local cloud; returns when it answers."""
    settings = Settings(
        state_dir=state,
        port=port,
        record=record,
        grace_s=grace_s,
        gpu_quota=quota_of(gpu_quota),
        gpu_timeout_ceiling_s=gpu_timeout_ceiling_s,
    )
    if foreground:
        _serve(settings)
        return
    try:
        answer = client.start(settings)
    except client.LocalCloudError as error:
        raise _fail(error) from error
    already = "is already running" if answer.get("already_running") else "is running"
    typer.echo(f"local cloud {already} on http://{HOST}:{answer['port']} (process {answer['pid']}, state in {state})")


def _serve(settings: Settings) -> None:
    from localcloud.server import serve, stamps

    try:
        serve.serve(settings)
    except (serve.StartError, stamps.AttributesMissingError) as error:
        raise _fail(error) from error


@app.command()
def stop(port: Port = DEFAULT_PORT) -> None:
    """Stop it; running tasks get their grace and go on when it starts again."""
    if client.status(port) is None:
        typer.echo(f"local cloud: none is running on port {port}")
        return
    try:
        client.stop(port)
    except client.LocalCloudError as error:
        raise _fail(error) from error
    typer.echo("local cloud stopped")


@app.command()
def status(
    port: Port = DEFAULT_PORT, as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False
) -> None:
    """Who answers, and what runs; exit code 4 when nobody does."""
    answer = _ask(port, "GET", "status")
    if as_json:
        typer.echo(json.dumps(answer))
        return
    typer.echo(f"local cloud {answer['version']} on http://{HOST}:{answer['port']} (process {answer['pid']})")
    typer.echo(f"state     {answer['state_dir']}")
    typer.echo(f"projects  {', '.join(answer['projects']) or 'none'}")
    typer.echo(f"running   {', '.join(answer['running_executions']) or 'none'}")


@app.command()
def reset(port: Port = DEFAULT_PORT) -> None:
    """Forget every resource, object and log entry; running executions are killed."""
    _ask(port, "POST", "reset")
    typer.echo("local cloud: everything is forgotten")


def _interrupt(verb: str, port: int, execution: str | None, task: int | None) -> None:
    body: Json = {"execution": execution, "task_index": task}
    for each in _ask(port, "POST", verb, body)["signalled"]:
        typer.echo(f"{verb}: {each['execution']} task {each['task_index']} attempt {each['attempt']}")


@app.command()
def preempt(port: Port = DEFAULT_PORT, execution: Execution = None, task: Task = None) -> None:
    """Maintenance: SIGTERM, the grace that `start` was told (10 s), SIGKILL; the task is retried."""
    _interrupt("preempt", port, execution, task)


@app.command()
def kill(port: Port = DEFAULT_PORT, execution: Execution = None, task: Task = None) -> None:
    """The machine is lost: SIGKILL without notice; the task is retried."""
    _interrupt("kill", port, execution, task)
