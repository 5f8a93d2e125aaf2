"""The Python language host: the process that the Pulumi CLI asks to run a program's `__main__.py`."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from localcloud.toolchain.plugin_process import serve
from localcloud.toolchain.plugin_run import PluginRuns
from localcloud.toolchain.program_run import run_program


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Serves one CLI command, in which a program may run twice (preview, then update)."""

    def __init__(self) -> None:
        self._run_lock = threading.Lock()
        self._root_directory = ""
        self._plugins = PluginRuns()

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
        self.stop_plugins()
        return empty_pb2.Empty()

    def Run(self, request: language_pb2.RunRequest, context: Any) -> language_pb2.RunResponse:  # noqa: ARG002, N802
        with self._run_lock:
            return contextvars.copy_context().run(run_program, request, self._root_directory)

    def RunPlugin(self, request: language_pb2.RunPluginRequest, context: Any) -> Iterator[Any]:  # noqa: N802
        return self._plugins.run(request, context)

    def stop_plugins(self) -> None:
        """Let what this host has started end."""
        self._plugins.stop()


def main() -> None:
    """Entry point of `pulumi-language-python`; the CLI's last argument is the engine's address, sent again in Run."""
    host = LanguageHost()
    serve(
        lambda server: language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server), cancel=host.stop_plugins
    )


if __name__ == "__main__":
    main()
