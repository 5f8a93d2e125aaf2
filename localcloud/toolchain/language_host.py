"""The Python language host: the process that the Pulumi CLI asks to run a program's `__main__.py`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import queue
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import grpc
import pulumi
from google.protobuf import empty_pb2
from pulumi.runtime import reset_options, run_in_stack, set_all_config
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from localcloud.toolchain.plugin_process import serve

_READ_BYTES = 65536


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Serves one CLI command, in which a program may run twice (preview, then update)."""

    def __init__(self) -> None:
        self._run_lock = threading.Lock()
        self._root_directory = ""
        self._children: set[subprocess.Popen[bytes]] = set()

    def Handshake(self, request: language_pb2.LanguageHandshakeRequest, context: Any) -> Any:  # noqa: ARG002, N802
        self._root_directory = request.root_directory
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return plugin_pb2.PluginInfo(version=metadata.version("pulumi"))

    def About(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return language_pb2.AboutResponse(executable=sys.executable, version=sys.version.split()[0])

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        """None: the plugins of a local stack lie on PATH, and the CLI would try to download what is listed here."""
        return language_pb2.GetRequiredPackagesResponse()

    def GetRequiredPlugins(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return language_pb2.GetRequiredPluginsResponse()

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        found = sorted((str(d.metadata["Name"]), d.version) for d in metadata.distributions())
        dependencies = [
            language_pb2.DependencyInfo(name=name, version=version) for name, version in dict(found).items()
        ]
        return language_pb2.GetProgramDependenciesResponse(dependencies=dependencies)

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: ARG002, N802
        text = f"The program runs in {sys.prefix}, which already holds its packages; nothing to install.\n"
        yield language_pb2.InstallDependenciesResponse(stdout=text.encode())

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        self.stop_children()
        return empty_pb2.Empty()

    def Run(self, request: language_pb2.RunRequest, context: Any) -> language_pb2.RunResponse:  # noqa: ARG002, N802
        """Run the program; its errors are logged to the engine, and `bail` tells the CLI that they were."""
        with self._run_lock:  # the working directory and sys.path are the process's own
            return contextvars.copy_context().run(_run_program, request, self._root_directory)

    def RunPlugin(self, request: language_pb2.RunPluginRequest, context: Any) -> Iterator[Any]:  # noqa: N802
        """Run a policy pack or another plugin written in Python, in its own virtual environment where it names one."""
        command = [_interpreter(request), "-u"]
        if request.kind == "analyzer":
            # The engine gives its own address; `pulumi.policy` wants the pack's folder behind it.
            command += ["-m", "pulumi.policy", *request.args, request.info.program_directory]
        else:
            command += [request.info.program_directory or request.program, *request.args]
        environment = {**os.environ, **dict(entry.split("=", 1) for entry in request.env)}
        try:
            child = subprocess.Popen(
                command, cwd=request.pwd or None, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"plugin {request.name}: cannot start {command[0]}: {error}"
            )
            return
        self._children.add(child)
        context.add_callback(lambda: _end(child))
        yield from _output_of(child)
        self._children.discard(child)
        yield language_pb2.RunPluginResponse(exitcode=child.wait())

    def stop_children(self) -> None:
        for child in list(self._children):
            _end(child)


def _run_program(request: language_pb2.RunRequest, root_directory: str) -> language_pb2.RunResponse:
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


def _interpreter(request: language_pb2.RunPluginRequest) -> str:
    options = request.info.options.fields
    if "virtualenv" not in options or not options["virtualenv"].string_value:
        return sys.executable
    root = request.info.root_directory or request.pwd
    return str(Path(root) / options["virtualenv"].string_value / "bin" / "python")


def _output_of(child: subprocess.Popen[bytes]) -> Iterator[Any]:
    """Both streams of the child as they come."""
    chunks: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()

    def pump(name: str, stream: IO[bytes] | None) -> None:
        while stream is not None and (data := os.read(stream.fileno(), _READ_BYTES)):
            chunks.put((name, data))
        chunks.put((name, b""))

    for name, stream in (("stdout", child.stdout), ("stderr", child.stderr)):
        threading.Thread(target=pump, args=(name, stream), daemon=True).start()
    open_streams = 2
    while open_streams:
        name, data = chunks.get()
        if data:
            yield (
                language_pb2.RunPluginResponse(stdout=data)
                if name == "stdout"
                else language_pb2.RunPluginResponse(stderr=data)
            )
        else:
            open_streams -= 1


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)


def main() -> None:
    """Entry point of `pulumi-language-python`; the CLI's last argument is the engine's address, sent again in Run."""
    host = LanguageHost()
    serve(
        lambda server: language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server), cancel=host.stop_children
    )


if __name__ == "__main__":
    main()
