"""Cloud Storage that misbehaves: answers that get lost, refusals, busy servers; each ends in the errno that says so."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import google.api_core.retry.retry_unary as retrying
import pytest
import requests

from app import startup
from app.checkpoint.storage import cloud_storage
from app.checkpoint.storage.cloud_reading import PIECE_BYTES
from app.checkpoint.storage.cloud_storage import PART_BYTES, CloudStorageStore
from app.checkpoint.storage.patience import StoreUnavailable
from app.checkpoint.storage.store import STAGED, read
from app.clock import Clock
from app.contract import Refusal, Task
from app.place import BucketPath
from tests.engine.buckets import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    Request = requests.PreparedRequest
    Forward = Callable[[], requests.Response]

REPOSITORY = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("buckets")


class Wire:
    """Between the client and the service: `disturb(request, forward)` answers in the service's place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[str] = []
        self.disturb: Callable[[Request, Forward], requests.Response] = lambda _request, forward: forward()
        send = requests.adapters.HTTPAdapter.send

        def sending(adapter: object, request: Request, **more: object) -> requests.Response:
            self.requests.append(f"{request.method} {request.url}")
            return self.disturb(request, lambda: send(adapter, request, **more))

        monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", sending)
        monkeypatch.setattr(retrying.time, "sleep", lambda _s: None)

    def once(self, part: str, act: Callable[[Forward], requests.Response]) -> None:
        """Disturb the first request whose method and address hold `part`."""
        left = [part]

        def disturb(request: Request, forward: Forward) -> requests.Response:
            if left and left[0] in f"{request.method} {request.url}":
                left.clear()
                return act(forward)
            return forward()

        self.disturb = disturb

    def always(self, status: int, reason: str = "", message: str = "made to fail") -> None:
        self.disturb = lambda request, _forward: answer(request, status, reason, message)


def answer(request: Request, status: int, reason: str = "", message: str = "made to fail") -> requests.Response:
    made = requests.Response()
    made.status_code, made.request, made.url = status, request, str(request.url)
    error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
    made._content = json.dumps({"error": error}).encode()
    made.headers["content-type"] = "application/json"
    return made


def lost(forward: Forward) -> requests.Response:
    """It was done, and the answer does not arrive."""
    forward()
    raise requests.ConnectionError("the connection was reset")


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(monkeypatch)


@pytest.fixture
def store(url: str, monkeypatch: pytest.MonkeyPatch) -> CloudStorageStore:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    return CloudStorageStore(new_bucket(url), "job-task-0")


def test_a_lost_answer_to_an_upload_is_no_refusal(store, wire):
    wire.once("uploadType=multipart", lost)
    assert store.create("shards/a", [memoryview(b"12345")]).size_bytes == 5
    assert read(store, "shards/a") == b"12345"


@pytest.mark.parametrize("part", ["uploadType=resumable", "PUT"])
def test_an_upload_in_parts_goes_on_after_a_busy_answer(store, wire, part):
    wire.once(part, lambda _forward: answer(requests.Request("PUT", store.url).prepare(), 503))
    content = bytes(range(256)) * (2 * PART_BYTES // 256 + 1)
    assert store.create("shards/a", [memoryview(content)]).size_bytes == len(content)
    assert read(store, "shards/a") == content


def test_a_lost_answer_does_not_make_somebody_elses_object_ours(store, wire):
    store.publish("ledger/a.json", b"the same content")
    wire.once("uploadType=multipart", lost)
    with pytest.raises(FileExistsError):
        store.publish("ledger/a.json", b"the same content")


@pytest.mark.parametrize("part", ["/moveTo/", ".staging%2Fa.json", "uploadType=multipart"])
def test_a_lost_answer_to_an_act_of_a_commit_leaves_it_committed(store, wire, part):
    wire.once(part, lost)
    store.publish("checkpoints/a.json", b"content", lambda: None)
    assert read(store, "checkpoints/a.json") == b"content"
    assert store.list(STAGED) == []


def test_a_commit_whose_move_gives_up_is_certainly_not_committed_or_certainly_is(store, wire, monkeypatch):
    monkeypatch.setattr(cloud_storage, "DEADLINE_S", 0.0)
    impatient = CloudStorageStore(store.url.split("/")[2], "job-task-0")
    wire.once("/moveTo/", lost)
    impatient.publish("checkpoints/a.json", b"content", lambda: None)
    assert read(store, "checkpoints/a.json") == b"content"

    def never_sent(_forward: Forward) -> requests.Response:
        raise requests.ConnectionError("the connection was refused")

    wire.once("/moveTo/", never_sent)
    with pytest.raises(OSError, match="in time"):
        impatient.publish("checkpoints/b.json", b"content", lambda: None)
    assert [entry.name for entry in store.list("checkpoints/")] == ["checkpoints/a.json"]
    assert store.list(STAGED) == []


def test_a_download_that_breaks_goes_on(store, wire):
    content = bytes(range(256)) * 2**17
    store.create("shards/a", [memoryview(content)])

    def broken(_forward: Forward) -> requests.Response:
        raise requests.exceptions.ChunkedEncodingError("broken in the middle")

    wire.once("alt=media", broken)
    assert len(content) > 3 * PIECE_BYTES
    assert read(store, "shards/a") == content


def test_an_object_that_is_replaced_while_it_is_read_is_not_mixed(store):
    store.replace("latest.json", b"old")
    with store.open("latest.json") as file:
        store.replace("latest.json", b"new")
        with pytest.raises(FileNotFoundError):
            file.read()


def test_what_arrived_otherwise_than_it_was_sent_is_removed_again(store, wire):
    def altered(forward: Forward) -> requests.Response:
        made = forward()
        made._content = json.dumps({**made.json(), "crc32c": "AAAAAA=="}).encode()
        return made

    wire.once("uploadType=multipart", altered)
    with pytest.raises(OSError, match="bytes of crc32c") as error:
        store.create("shards/a", [memoryview(b"content")])
    assert error.value.errno == errno.EIO
    assert store.list("shards/") == []


@pytest.fixture
def impatient(url: str, monkeypatch: pytest.MonkeyPatch) -> tuple[CloudStorageStore, Wire]:
    """A store that tries once."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    monkeypatch.setattr(cloud_storage, "DEADLINE_S", 0.0)
    return CloudStorageStore("some-bucket", "job-task-0"), Wire(monkeypatch)


OPERATIONS: dict[str, Callable[[CloudStorageStore], object]] = {
    "list": lambda store: store.list("checkpoints/"),
    "open": lambda store: store.open("shards/a"),
    "create": lambda store: store.create("shards/a", [memoryview(b"1")]),
    "create in parts": lambda store: store.create("shards/a", [memoryview(bytes(PART_BYTES))]),
    "publish": lambda store: store.publish("ledger/a", b"1"),
    "commit": lambda store: store.publish("checkpoints/a", b"1", lambda: None),
    "replace": lambda store: store.replace("latest.json", b"1"),
    "delete": lambda store: store.delete("shards/a"),
    "look": lambda store: store.look(),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("status", "reason", "number", "told"),
    [
        (401, "required", errno.EACCES, "roles/storage.objectUser"),
        (403, "forbidden", errno.EACCES, "roles/storage.objectUser"),
        (403, "rateLimitExceeded", errno.EIO, "made to fail"),
        (400, "invalid", errno.EINVAL, "made to fail"),
        (408, "", errno.ETIMEDOUT, "did not do it in time"),
        (429, "rateLimitExceeded", errno.ETIMEDOUT, "made to fail"),
        (500, "backendError", errno.ETIMEDOUT, "made to fail"),
        (503, "backendError", errno.ETIMEDOUT, "made to fail"),
    ],
)
def test_every_refusal_has_its_errno(impatient, operation, status, reason, number, told):  # noqa: PLR0917 - a table
    store, wire = impatient
    wire.always(status, reason)
    with pytest.raises(OSError, match=told) as error:
        OPERATIONS[operation](store)
    assert error.value.errno == number
    assert str(error.value.filename).startswith("gs://some-bucket/")


@pytest.mark.parametrize(
    ("broken", "number"),
    [
        (requests.ConnectionError("no route to host"), errno.ETIMEDOUT),
        (requests.ReadTimeout("read timed out"), errno.ETIMEDOUT),
        (requests.exceptions.InvalidURL("no such address"), errno.EIO),
    ],
)
def test_a_service_that_does_not_answer_is_trouble(impatient, broken, number):
    store, wire = impatient

    def disturb(_request: Request, _forward: Forward) -> requests.Response:
        raise broken

    wire.disturb = disturb
    with pytest.raises(OSError, match="Cloud Storage") as error:
        store.list("checkpoints/")
    assert error.value.errno == number


NO_WAIT = Clock(sleep=lambda _s: None)


class TestAtTheStart:
    def test_a_missing_bucket_is_refused_with_how_to_make_it(self, url, monkeypatch):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        with pytest.raises(Refusal, match="gcloud storage buckets create gs://no-such-bucket"):
            startup.open_store(Task(BucketPath("no-such-bucket")), NO_WAIT)

    def test_a_missing_role_is_refused_with_the_role(self, store, wire):
        wire.always(403, "forbidden", "x@y does not have storage.objects.list access.")
        with pytest.raises(Refusal, match=r"does not have .* Grant it roles/storage.objectUser on the bucket"):
            startup.open_store(Task(BucketPath("some-bucket")), NO_WAIT)

    def test_missing_credentials_are_refused_with_where_to_get_them(self, monkeypatch, tmp_path):
        monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
        with pytest.raises(Refusal, match="gcloud auth application-default login"):
            startup.open_store(Task(BucketPath("some-bucket")), NO_WAIT)

    def test_trouble_is_tried_again_and_then_left_to_the_platform(self, store, wire, monkeypatch):
        monkeypatch.setattr(cloud_storage, "DEADLINE_S", 0.0)
        wire.always(503)
        with pytest.raises(StoreUnavailable, match="failed 4 times"):
            startup.open_store(Task(BucketPath("some-bucket")), NO_WAIT)


def test_a_commit_costs_few_requests(store, wire):
    def asked() -> int:
        return sum("/o" in request.partition("/b/")[2] for request in wire.requests)

    store.publish("checkpoints/a.json", b"content", lambda: None)
    assert asked() == 2, "laid ready, moved"
    store.create("shards/a", [memoryview(b"1")])
    assert asked() == 3
    read(store, "shards/a")
    assert asked() == 5, "what it is, and its bytes"


def test_a_line_in_a_directory_does_not_wait_for_googles_client(tmp_path):
    program = (
        "import sys; from pathlib import Path; from app import startup; from app.contract import Task\n"
        f"startup.begin(task := Task(Path({str(tmp_path)!r})), startup.open_store(task))\n"
        "sys.exit(any(name.startswith(('google', 'requests')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=False).returncode == 0
