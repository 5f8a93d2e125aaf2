"""Entry point of `pulumi-resource-gcp`: serve until the engine that started it is done."""

from __future__ import annotations

import importlib.util
import sys
import types


def main() -> None:
    """Print the port and serve; the CLI passes the engine's address, which this plugin has no use for."""
    _skip_the_sdk()
    from pulumi.runtime.proto import provider_pb2_grpc

    from localcloud.provider.servicer import Servicer
    from localcloud.toolchain.plugin_process import serve

    servicer = Servicer()
    serve(
        lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server),
        cancel=servicer.cancel,
    )


def _skip_the_sdk() -> None:
    """Let `pulumi.runtime.proto` be imported without the SDK around it.

    The plugin needs the messages only. The two packages above them import everything for writing programs, which takes
    longer than all else that the plugin does at its start, and the engine starts it up to three times a command.
    """
    for name in ("pulumi", "pulumi.runtime"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.submodule_search_locations is None:
            return
        package = types.ModuleType(name)
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules[name] = package


if __name__ == "__main__":
    main()
