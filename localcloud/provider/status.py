"""The gRPC status that tells the engine: the object exists, keep it in the state, but it is not finished.

The message is Google's own: the SDK's copy of it cannot be loaded in a process that has loaded Google's clients.
"""

from __future__ import annotations

import grpc
from google.rpc import status_pb2
from pulumi.runtime.proto import provider_pb2

from localcloud.provider.lifecycle import Partial
from localcloud.provider.values import to_struct


class _Status(grpc.Status):
    def __init__(self, code: grpc.StatusCode, details: str, message: status_pb2.Status) -> None:
        self.code = code
        self.details = details
        self.trailing_metadata = (("grpc-status-details-bin", message.SerializeToString()),)


def init_failed(partial: Partial) -> grpc.Status:
    """Status of a Create or Update whose object exists although the call failed."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=partial.id,
        properties=to_struct(partial.outputs),
        inputs=to_struct(partial.inputs),
        reasons=[str(partial)],
    )
    message = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(partial))
    message.details.add().Pack(detail)
    return _Status(grpc.StatusCode.UNKNOWN, str(partial), message)
