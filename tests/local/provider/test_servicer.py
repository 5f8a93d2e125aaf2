"""The plugin's protocol, spoken over gRPC as the engine speaks it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from google.rpc import status_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from localcloud.provider import resource
from localcloud.provider.errors import ApiError
from localcloud.provider.products import TYPES
from localcloud.provider.rest import Rest
from localcloud.provider.servicer import Servicer
from localcloud.provider.settings import ENDPOINTS
from localcloud.provider.values import UNKNOWN, from_struct, to_struct

GIVEN = {key: f"http://127.0.0.1:9/{path}" for key, path in ENDPOINTS.items()} | {"project": "demo"}
ACCOUNT = "urn:pulumi:dev::small::gcp:serviceaccount/account:Account::worker"
Answers = Callable[[str, str], dict[str, Any]]


@pytest.fixture
def plugin() -> Iterator[provider_pb2_grpc.ResourceProviderStub]:
    """A configured plugin behind a real channel."""
    server = grpc.server(ThreadPoolExecutor(4))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        stub.Configure(provider_pb2.ConfigureRequest(args=to_struct(GIVEN)))
        yield stub
    server.stop(None)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], None]:
    """Puts a function in the place of the network."""

    def install(answer: Answers) -> None:
        def call(_self: Rest, method: str, url: str, **_: Any) -> dict[str, Any]:
            return answer(method, url)

        monkeypatch.setattr(Rest, "call", call)

    return install


def test_the_schema_lists_every_type(plugin: provider_pb2_grpc.ResourceProviderStub) -> None:
    schema = json.loads(plugin.GetSchema(provider_pb2.GetSchemaRequest()).schema)
    assert set(schema["resources"]) == set(TYPES)


def test_functions_are_refused_by_name(plugin: provider_pb2_grpc.ResourceProviderStub) -> None:
    with pytest.raises(grpc.RpcError, match="gcp:organizations/getProject:getProject: this plugin has no functions"):
        plugin.Invoke(provider_pb2.InvokeRequest(tok="gcp:organizations/getProject:getProject"))


def test_an_endpoint_elsewhere_stops_configure_even_without_a_check(
    plugin: provider_pb2_grpc.ResourceProviderStub,
) -> None:
    args = to_struct({**GIVEN, "cloudRunV2CustomEndpoint": "https://run.googleapis.com/v2/"})
    with pytest.raises(grpc.RpcError, match="not this machine"):
        plugin.Configure(provider_pb2.ConfigureRequest(args=args))


def test_a_preview_sends_nothing_and_marks_what_is_not_known_yet(
    plugin: provider_pb2_grpc.ResourceProviderStub,
) -> None:
    inputs = to_struct({"project": "demo", "accountId": "worker-sa", "displayName": UNKNOWN})
    request = provider_pb2.CreateRequest(urn=ACCOUNT, properties=inputs, preview=True)
    outputs = from_struct(plugin.Create(request).properties)
    assert outputs["email"] == "worker-sa@demo.iam.gserviceaccount.com"
    assert (outputs["displayName"], outputs["uniqueId"]) == (UNKNOWN, UNKNOWN)


def test_an_object_that_was_made_but_not_read_back_reaches_the_state(
    plugin: provider_pb2_grpc.ResourceProviderStub, answers: Callable[[Answers], None]
) -> None:
    def answer(method: str, url: str) -> dict[str, Any]:
        if method == "GET":
            raise ApiError(500, "INTERNAL", "broken", method, url)
        return {}

    answers(answer)
    inputs = to_struct({"project": "demo", "accountId": "worker-sa"})
    with pytest.raises(grpc.RpcError) as caught:
        plugin.Create(provider_pb2.CreateRequest(urn=ACCOUNT, properties=inputs))
    metadata = dict(caught.value.trailing_metadata())
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    failed = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(failed)
    assert failed.id == "projects/demo/serviceAccounts/worker-sa@demo.iam.gserviceaccount.com"
    assert from_struct(failed.properties)["accountId"] == "worker-sa"
    assert "broken" in failed.reasons[0]


def test_a_refused_create_leaves_no_trace_in_the_state(
    plugin: provider_pb2_grpc.ResourceProviderStub, answers: Callable[[Answers], None]
) -> None:
    def answer(method: str, url: str) -> dict[str, Any]:
        raise ApiError(409, "ALREADY_EXISTS", "exists", method, url)

    answers(answer)
    inputs = to_struct({"project": "demo", "accountId": "worker-sa"})
    with pytest.raises(grpc.RpcError) as caught:
        plugin.Create(provider_pb2.CreateRequest(urn=ACCOUNT, properties=inputs))
    assert "grpc-status-details-bin" not in dict(caught.value.trailing_metadata() or ())
    assert "pulumi import gcp:serviceaccount/account:Account worker projects/demo/" in str(caught.value.details())


def test_a_deleted_object_reads_as_an_empty_id(
    plugin: provider_pb2_grpc.ResourceProviderStub, answers: Callable[[Answers], None]
) -> None:
    def answer(method: str, url: str) -> dict[str, Any]:
        raise ApiError(resource.GONE, "NOT_FOUND", "gone", method, url)

    answers(answer)
    state = to_struct({"project": "demo", "accountId": "worker-sa"})
    request = provider_pb2.ReadRequest(urn=ACCOUNT, id="x", inputs=state, properties=state)
    assert plugin.Read(request).id == ""
    plugin.Delete(provider_pb2.DeleteRequest(urn=ACCOUNT, id="x", properties=state))


@pytest.mark.parametrize(("policy", "sent"), [("ABANDON", 0), ("DELETE", 1)])
def test_an_abandoned_object_stays(
    plugin: provider_pb2_grpc.ResourceProviderStub, answers: Callable[[Answers], None], policy: str, sent: int
) -> None:
    calls: list[str] = []

    def answer(method: str, url: str) -> dict[str, Any]:
        calls.append(f"{method} {url}")
        return {}

    answers(answer)
    state = to_struct({"project": "demo", "accountId": "worker-sa", "deletionPolicy": policy})
    plugin.Delete(provider_pb2.DeleteRequest(urn=ACCOUNT, id="x", properties=state))
    assert len(calls) == sent


def test_a_bucket_with_objects_is_kept_unless_it_may_be_emptied(
    plugin: provider_pb2_grpc.ResourceProviderStub, answers: Callable[[Answers], None]
) -> None:
    calls: list[str] = []

    def answer(method: str, url: str) -> dict[str, Any]:
        calls.append(f"{method} {url.rsplit('/b/', maxsplit=1)[-1]}")
        return {"items": [{"name": "a/b c", "generation": "7"}]} if method == "GET" else {}

    answers(answer)
    urn = "urn:pulumi:dev::small::gcp:storage/bucket:Bucket::data"
    with pytest.raises(grpc.RpcError, match="holds objects"):
        plugin.Delete(provider_pb2.DeleteRequest(urn=urn, id="x", properties=to_struct({"name": "x"})))
    assert calls == ["GET x/o"]
    emptied = to_struct({"name": "x", "forceDestroy": True})
    plugin.Delete(provider_pb2.DeleteRequest(urn=urn, id="x", properties=emptied))
    assert calls[1:] == ["GET x/o", "DELETE x/o/a%2Fb%20c", "DELETE x"]


def test_another_writer_of_a_policy_is_read_again_and_kept(
    plugin: provider_pb2_grpc.ResourceProviderStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = {"role": "roles/viewer", "members": ["user:them@b.c"]}
    written: list[dict[str, Any]] = []

    def call(_self: Rest, method: str, url: str, **more: Any) -> dict[str, Any]:
        if method == "GET":
            return {"etag": f"e{len(written)}", "bindings": [theirs] if written else []}
        written.append(more["body"])
        if len(written) == 1:
            raise ApiError(409, "ABORTED", "the policy changed", method, url)
        return {}

    monkeypatch.setattr(Rest, "call", call)
    urn = "urn:pulumi:dev::small::gcp:storage/bucketIAMMember:BucketIAMMember::grant"
    inputs = to_struct({"bucket": "x", "role": "roles/a", "member": "user:me@b.c"})
    with pytest.raises(grpc.RpcError, match="is not there"):  # this fake never shows what was written
        plugin.Create(provider_pb2.CreateRequest(urn=urn, properties=inputs))
    mine = {"role": "roles/a", "members": ["user:me@b.c"]}
    assert written[-1] == {"version": 3, "etag": "e1", "bindings": [mine, theirs]}


def test_cancel_is_answered(plugin: provider_pb2_grpc.ResourceProviderStub) -> None:
    assert plugin.Cancel(empty_pb2.Empty()) == empty_pb2.Empty()
