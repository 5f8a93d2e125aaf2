"""Entry point of `pulumi-resource-gcp`: serve until the engine that started it is done."""

from __future__ import annotations

from pulumi.runtime.proto import provider_pb2_grpc

from localcloud.provider.servicer import Servicer
from localcloud.toolchain.plugin_process import serve


def main() -> None:
    """Print the port and serve; the CLI passes the engine's address, which this plugin has no use for."""
    servicer = Servicer()
    serve(
        lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server),
        cancel=servicer.cancel,
    )


if __name__ == "__main__":
    main()
