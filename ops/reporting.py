"""Ends a command with a paragraph and an exit code, never with a traceback for what can be foreseen."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

import typer

from ops.errors import OpsError


@contextmanager
def reported() -> Generator[None]:
    """Prints expected failures on stderr and exits with their code."""
    try:
        yield
    except OpsError as error:
        say(f"gpujob: {error}")
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough. Python would complain again when it flushes at exit.
        sys.stdout = None
        raise typer.Exit(0) from None


def say(message: str) -> None:
    """For the person, not for the pipe."""
    typer.echo(message, err=True)
