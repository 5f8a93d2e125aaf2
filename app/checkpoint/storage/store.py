"""Where a checkpoint line lives, as the engine sees it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from app import logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STAGED = ".staging/"
"""Below it lie documents that `publish` has laid ready; their names begin with that of the object to be."""

PARALLEL = 4
"""So many objects of a line are written, or read, at once: a bucket mount keeps a fifth open file in memory."""

DOCUMENT_BYTES = 16 * 2**20
"""A larger document was not written by us: hints, records and the ledger have a few hundred bytes."""
MANIFEST_BYTES = 2**29
"""And so for a manifest, which has about a hundred bytes a tensor."""


class TooLarge(ValueError):  # noqa: N818
    """An object that holds more than any of its kind, and is not taken into memory."""


@dataclass(frozen=True)
class Entry:
    """One object: name below the line's root, size, and when the *store's* clock saw it change (Unix seconds)."""

    name: str
    size_bytes: int
    modified_s: float


@dataclass(frozen=True)
class Written:
    """What is known of an object that was just created."""

    size_bytes: int
    crc32c: str | None = None
    """The store's own word for what it holds, eight hex digits; None where it computes none (a directory)."""


class Store(Protocol):
    """Six methods, shaped by the weakest store that must be right.

    Objects have names, not handles, and are written once from start to end, because a bucket mount streams only such
    writes. There is no rename and no lock, because a mount has neither. `create` and `publish` both refuse to
    overwrite; they are apart because a shard may be left half-written under its name (nothing refers to it yet),
    while the manifest that `publish` writes *is* the commit and appears whole wherever the medium can do that.
    `replace` is for hints only: a reader must bear finding it torn.

    A commit must not come to be once a newer attempt has taken over, not even when its writer slept in between. So
    `publish` has a last look: what the store can, it lays ready below `STAGED` first, then calls `last_look`, and only
    then lets the object come to be, from what was laid ready and in one act. A newer attempt announces itself and
    *then* deletes what lies there (app/checkpoint/epochs.py): a writer that looked too early finds it gone.

    Every method raises OSError for storage trouble: FileExistsError and FileNotFoundError mean what they say, the rest
    (EIO, EACCES, ENOSPC, ...) is the medium's own word.
    """

    def list(self, prefix: str) -> list[Entry]:
        """Every object whose name starts with `prefix`, which ends in "/"; empty if there is none. In name order."""
        ...

    def open(self, name: str) -> BinaryIO:
        """An object for reading from its start. A second `open` is a fresh read."""
        ...

    def create(self, name: str, chunks: Iterable[memoryview]) -> Written:
        """Write a new object. When this returns it is whole and of the size that was written.

        It is durable when this returns or, on a disk, when a later `publish` comes to its last look. A chunk is read
        only until the next one is asked for: its memory may be used again then.
        """
        ...

    def publish(self, name: str, content: bytes, last_look: Callable[[], None] | None = None) -> None:
        """Write a new small object, durable when this returns.

        What `last_look` raises ends it, without a trace. FileNotFoundError: what was laid ready is gone.
        """
        ...

    def replace(self, name: str, content: bytes) -> None:
        """Write a small object over whatever is there; a machine that loses power may lose it."""
        ...

    def delete(self, name: str) -> None:
        """Remove an object; it being gone already is no error."""
        ...


def read(store: Store, name: str, most_bytes: int = MANIFEST_BYTES) -> bytes:
    """The whole of a small object. Its size is asked first: raises TooLarge. OSError as the store."""
    with store.open(name) as file:
        size = file.seek(0, os.SEEK_END)
        if size > most_bytes:
            raise TooLarge(f"it holds {size:,} bytes, and none of its kind has more than {most_bytes:,}")
        file.seek(0)
        return file.read()


Kinds = Mapping[str, tuple[type, ...]]
"""Which types a field may have; one that may be absent has NoneType among them."""


def document(store: Store, name: str, kinds: Kinds) -> dict[str, Any] | None:
    """A small JSON document; None when it is absent, torn, or a field is not of its kind. Raises OSError."""
    try:
        return fields_of(json.loads(read(store, name, DOCUMENT_BYTES)), kinds)
    except TooLarge as error:
        logs.warning(f"{name} is not believed: {error}.")
        return None
    except (FileNotFoundError, ValueError, RecursionError):
        return None


def fields_of(found: Any, kinds: Kinds) -> dict[str, Any]:
    """`found`, an object whose fields are of these kinds; others are left as they are. Raises ValueError."""
    if not isinstance(found, dict):
        raise ValueError(f"it is a {type(found).__name__}, not an object with fields")  # noqa: TRY004 - a wrong value
    fields = cast("dict[str, Any]", found)
    for field, kind in kinds.items():
        if type(fields.get(field)) not in kind:
            raise ValueError(f"its {field} is {str(fields.get(field))[:80]!r}")
    return fields
