"""One run of a Pulumi program in the language host: its folder, its event loop, its error as the engine shows it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import runpy
import sys
import traceback
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pulumi
from pulumi.runtime import reset_options, run_in_stack, set_all_config
from pulumi.runtime.proto import language_pb2


def run_program(request: language_pb2.RunRequest, root_directory: str) -> language_pb2.RunResponse:
    """Run the program; its errors are logged to the engine, and `bail` tells the CLI that they were.

    One at a time: the working directory and sys.path are the process's own.
    """
    # Faults of tasks nobody waits for repeat the error that is reported below.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    reset_options(
        project=request.project,
        monitor_address=request.monitor_address,
        engine_address=request.args[0] if request.args else "",
        stack=request.stack,
        parallel=request.parallel,
        preview=request.dryRun,
        organization=request.organization or "organization",
        root_directory=request.info.root_directory or root_directory or request.pwd,
    )
    set_all_config(dict(request.config), list(request.configSecretKeys))
    directory = Path(request.info.program_directory or request.pwd)
    entry = directory / (request.info.entry_point or request.program or ".")
    loop = asyncio.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=max(request.parallel, 1) * 4))
    loop.set_exception_handler(_on_unobserved)

    def program() -> None:
        runpy.run_path(str(entry), run_name="__main__")

    try:
        with _as_program(directory):
            loop.run_until_complete(run_in_stack(program))
    except SystemExit as error:
        if error.code not in (None, 0):
            return _failed(f"the program ended itself with sys.exit({error.code!r})")
    except BaseException as error:  # whatever the program raises is its own report
        if _engine_is_leaving(error):
            return language_pb2.RunResponse(bail=True)
        if isinstance(error, pulumi.RunError):  # an error meant for people: its text is the whole of it
            return _failed(str(error))
        return _failed("Program failed with an unhandled exception:\n" + _trace(error, directory))
    finally:
        _close(loop)
        sys.stdout.flush()
        sys.stderr.flush()
    return language_pb2.RunResponse()


def _engine_is_leaving(error: BaseException | None) -> bool:
    """Whether this is only the echo of an engine that has failed and said why, and now takes no more calls."""
    while error is not None:
        if isinstance(error, grpc.RpcError):
            return error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        error = error.__cause__ or error.__context__
    return False


def _failed(message: str) -> language_pb2.RunResponse:
    pulumi.log.error(message)
    return language_pb2.RunResponse(bail=True)


def _trace(error: BaseException, directory: Path) -> str:
    """The traceback from the program's first own frame on: what lies above is this host and the SDK."""
    own = f"{directory.resolve()}{os.sep}"

    def is_own(file: str) -> bool:
        return not file.startswith("<") and os.path.realpath(file).startswith(own)

    first = error.__traceback__
    while first is not None and not is_own(first.tb_frame.f_code.co_filename):
        first = first.tb_next
    if first is None and not isinstance(error, SyntaxError):  # a syntax error names its own file and line
        first = error.__traceback__
    return "".join(traceback.format_exception(type(error), error, first)).rstrip()


def _on_unobserved(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if isinstance(context.get("exception"), grpc.RpcError):
        loop.stop()
    else:
        loop.default_exception_handler(context)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            loop.run_until_complete(task)
    loop.close()


@contextlib.contextmanager
def _as_program(directory: Path) -> Generator[None]:
    """The working directory and sys.path of the program; its own modules are forgotten afterwards.

    A preview and the update after it run in this one process. The program's modules must not outlive the first:
    they may have read `is_dry_run` or the configuration when they were imported.
    """
    before, cwd, path = set(sys.modules), Path.cwd(), list(sys.path)
    os.chdir(directory)
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        os.chdir(cwd)
        sys.path[:] = path
        own, installed = str(directory.resolve()), str(Path(sys.prefix).resolve())
        for name in set(sys.modules) - before:
            file = os.path.realpath(getattr(sys.modules[name], "__file__", None) or "")
            if file.startswith(own + os.sep) and not file.startswith(installed + os.sep):
                del sys.modules[name]
