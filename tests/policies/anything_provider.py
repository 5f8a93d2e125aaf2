"""A provider of any `gcp` resource that calls no cloud: whatever is declared is accepted and remembered as it is."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from localcloud.toolchain.plugin_process import serve


class Anything(provider_pb2_grpc.ResourceProviderServicer):
    """Only so much of a provider as a preview and a first update of one stack need."""

    def GetPluginInfo(self, request, context):
        return plugin_pb2.PluginInfo(version="0.0.1")

    def CheckConfig(self, request, context):
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request, context):
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request, context):
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Check(self, request, context):
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request, context):
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Create(self, request, context):
        return provider_pb2.CreateResponse(id="made", properties=request.properties)

    def Cancel(self, request, context):
        return empty_pb2.Empty()


if __name__ == "__main__":
    serve(
        lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(Anything(), server), cancel=lambda: None
    )
