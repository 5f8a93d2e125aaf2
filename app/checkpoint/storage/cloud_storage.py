"""A store in a Cloud Storage bucket, through Google's client: no mount, and every write under a precondition.

What a mount cannot give is here: an object appears whole or not at all, "only if absent" is decided by the service
(ifGenerationMatch=0), the service's own crc32c says what it holds, and a commit is one atomic act (objects.move), which
a newer attempt can forestall. An answer that gets lost is no riddle either: every object carries a token of the call
that wrote it.

The client is imported when a store is made: a line in a directory must not wait for it.
"""

from __future__ import annotations

import base64
import errno
import io
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from app.checkpoint.storage.cloud_errors import as_os_errors
from app.checkpoint.storage.cloud_reading import Ranges
from app.checkpoint.storage.cloud_writing import Feed
from app.checkpoint.storage.store import STAGED, Entry, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

PART_BYTES = 16 * 2**20
"""Of a large object, sent in one request; each upload holds one of them."""
READERS = 6
"""Requests at once that read pieces; with the four writers they fill the client's pool of ten connections."""
TIMEOUT_S = (10.0, 60.0)
"""To connect, and between two packets of an answer."""
DEADLINE_S = 60.0
"""So long the client's own policy tries one request again (429, 5xx, broken connections), with growing pauses."""
_LONGEST_NAME = 1024
_WRITER = "writer"
"""Metadata of an object: the token of the call that wrote it."""


class CloudStorageStore:
    """Objects of `bucket` whose names begin with `prefix` and a slash; an empty prefix is the whole bucket.

    STORAGE_EMULATOR_HOST leads to an emulator. Raises OSError when there are no credentials.
    """

    def __init__(self, bucket: str, prefix: str = "") -> None:
        from google.cloud import storage
        from google.cloud.storage.retry import DEFAULT_RETRY

        self.url = f"gs://{bucket}/{prefix}".rstrip("/")
        self._below = f"{prefix}/" if prefix else ""
        with as_os_errors(self.url):
            self._client: Any = storage.Client()
        self._bucket: Any = self._client.bucket(bucket)
        self._patience: dict[str, Any] = {"timeout": TIMEOUT_S, "retry": DEFAULT_RETRY.with_timeout(DEADLINE_S)}
        self._threads: ThreadPoolExecutor | None = None
        self._lock = Lock()

    def list(self, prefix: str) -> list[Entry]:
        found = list[Entry]()
        with as_os_errors(f"{self.url}/{prefix}"):
            for blob in self._client.list_blobs(
                self._bucket,
                prefix=self._below + prefix,
                fields="items(name,size,updated),nextPageToken",
                **self._patience,
            ):
                name = str(blob.name).removeprefix(self._below)
                if not name.endswith("/"):  # what a mount, or the console, makes for a folder
                    found.append(Entry(name, int(blob.size), blob.updated.timestamp()))
        return sorted(found, key=lambda entry: entry.name)

    def open(self, name: str) -> BinaryIO:
        with self._about(name) as blob:
            blob.reload(**self._patience)
        generation = int(blob.generation)

        def fetch(begin: int, end: int) -> bytes:
            sink = io.BytesIO()
            with self._about(name, generation) as part:
                part.download_to_file(
                    sink,
                    start=begin,
                    end=end - 1,
                    raw_download=True,
                    single_shot_download=True,
                    checksum=None,
                    **self._patience,
                )
            return sink.getvalue()

        return cast("BinaryIO", Ranges(self._url(name), int(blob.size), fetch, self._readers))

    def create(self, name: str, chunks: Iterable[memoryview]) -> Written:
        blob = self._upload(name, Feed(chunks))
        return Written(int(blob.size), _hex(blob.crc32c))

    def publish(self, name: str, content: bytes, last_look: Callable[[], None] | None = None) -> None:
        if last_look is None:
            self._upload(name, Feed([memoryview(content)]))
            return
        self._checked_name(name)
        ready = f"{STAGED}{name.rpartition('/')[2]}.{secrets.token_hex(8)}"
        laid = self._upload(ready, Feed([memoryview(content)]))
        try:
            last_look()
            self._move(laid, name)
        except BaseException:
            with suppress(OSError):
                self.delete(ready)
            raise

    def replace(self, name: str, content: bytes) -> None:
        with self._about(name) as blob:
            blob.upload_from_file(io.BytesIO(content), size=len(content), checksum="crc32c", **self._patience)

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError), self._about(name) as blob:
            blob.delete(**self._patience)

    def look(self) -> None:
        """Whether the bucket is there and may be listed. Raises OSError: FileNotFoundError when it is not there."""
        with as_os_errors(self.url):
            list[Any](self._client.list_blobs(self._bucket, prefix=self._below, max_results=1, **self._patience))

    def _upload(self, name: str, feed: Feed) -> Any:
        """A new object of what `feed` gives. Returns the client's blob."""
        token = secrets.token_hex(8)
        size = feed.size if feed.fits_in(PART_BYTES) else None  # None: in parts, until nothing comes any more
        try:
            with self._about(name) as blob:
                blob.chunk_size, blob.metadata = PART_BYTES, {_WRITER: token}
                blob.upload_from_file(feed, size=size, if_generation_match=0, checksum=None, **self._patience)
        except FileExistsError:
            blob = self._written_with(name, token)
            if blob is None:
                raise
        except ValueError as error:  # the service kept a part of a part: the client cannot send it from there
            raise OSError(errno.EIO, f"The upload was interrupted ({error})", self._url(name)) from error
        if (int(blob.size), _hex(blob.crc32c)) != (feed.size, feed.crc32c):
            self.delete(name)
            came = f"{feed.size} bytes of crc32c {feed.crc32c} were sent, {blob.size} of {_hex(blob.crc32c)} came"
            raise OSError(errno.EIO, came, self._url(name))
        return blob

    def _move(self, laid: Any, name: str) -> None:
        """Rename in one act, which fails when what was laid ready is gone or the new name is taken."""
        try:
            with as_os_errors(self._url(name)):
                self._bucket.move_blob(
                    laid,
                    self._below + name,
                    if_generation_match=0,
                    if_source_generation_match=laid.generation,
                    **self._patience,
                )
        except OSError:
            # It may have happened and the answer got lost. With its source away it has, or never will.
            self.delete(str(laid.name).removeprefix(self._below))
            if self._written_with(name, laid.metadata[_WRITER]) is None:
                raise

    def _written_with(self, name: str, token: str) -> Any | None:
        """The object if the call that drew `token` wrote it: its answer got lost."""
        with suppress(FileNotFoundError), self._about(name) as blob:
            blob.reload(**self._patience)
            return blob if (blob.metadata or {}).get(_WRITER) == token else None
        return None

    @contextmanager
    def _about(self, name: str, generation: int | None = None) -> Generator[Any]:
        self._checked_name(name)
        with as_os_errors(self._url(name)):
            yield self._bucket.blob(self._below + name, generation=generation)

    def _checked_name(self, name: str) -> None:
        if len((self._below + name).encode()) > _LONGEST_NAME:
            raise OSError(errno.ENAMETOOLONG, "File name too long", self._url(name))
        if not name or {"\r", "\n", "\0"} & set(name):
            raise OSError(errno.EINVAL, "No object can have that name", self._url(name))

    def _url(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _readers(self) -> ThreadPoolExecutor:
        with self._lock:
            self._threads = self._threads or ThreadPoolExecutor(READERS, thread_name_prefix="ranges")
        return self._threads


def _hex(base64_sum: str) -> str:
    """Cloud Storage writes a crc32c in base64, big-endian."""
    return base64.b64decode(base64_sum).hex()
