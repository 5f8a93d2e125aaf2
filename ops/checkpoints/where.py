"""Which checkpoint line a command means: a directory, a gs:// URL, or a line of a stack; or a root that holds lines."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ops.checkpoints.trouble import telling
from ops.errors import MisconfiguredError, MissingError

if TYPE_CHECKING:
    from app.checkpoint.storage.store import Store

CLOUD = "gs://"
EMULATOR = "STORAGE_EMULATOR_HOST"


@dataclass(frozen=True)
class Place:
    """A line. `url` is what to type for it."""

    url: str
    store: "Store"


@dataclass(frozen=True)
class Root:
    """A folder that holds lines, one a task."""

    url: str
    lines: tuple[str, ...]
    """Their names below it."""


def find(typed: str | None, stack: str | None) -> Place | Root:
    """The line, or the root of several. A root of one line is that line. Raises OpsError.

    `typed` is a directory or a gs:// URL; with a stack the name of one of its lines. Without it the stack's lines.
    """
    if typed is not None and stack is None:
        return _at(typed.rstrip("/") if len(typed) > 1 else typed)
    root = _root_of(stack)
    if typed and ("://" in typed or typed.startswith((".", "/"))):
        return _at(typed.rstrip("/"))  # in the cloud of the stack
    return _at(f"{root}/{typed}") if typed else _at(root)


def one_line(typed: str | None, stack: str | None) -> Place:
    """Raises MisconfiguredError where there are several."""
    found = find(typed, stack)
    if isinstance(found, Place):
        return found
    first = found.lines[0] if stack or typed is None else f"{found.url}/{found.lines[0]}"
    raise MisconfiguredError(
        f"{found.url} holds {len(found.lines)} checkpoint lines: {', '.join(found.lines)}. Nothing was changed. "
        f"Name one, such as {first}."
    )


def store_at(url: str) -> "Store":
    """Nothing is looked at. Raises MisconfiguredError for what is no place, OSError without credentials."""
    from app.checkpoint.storage.opening import open_root
    from app.contract import Refusal

    try:
        return open_root(url)
    except Refusal as error:
        raise MisconfiguredError(f"{error} Nothing was changed.") from error


def _at(url: str) -> Place | Root:
    from app.checkpoint.names import FOLDERS

    with telling(url):
        store = store_at(url)
        if not url.startswith(CLOUD) and not Path(url).is_dir():
            raise _no_line(url, "is no directory" if Path(url).exists() else "does not exist")
        names = set(_two_levels(url, store))
    if any(f"{first}/" in FOLDERS for first, _ in names):
        return Place(url, store)
    below = {first for first, second in names if f"{second}/" in FOLDERS}
    if len(below) == 1:
        return _at(f"{url}/{below.pop()}")
    if below:
        return Root(url, tuple(sorted(below)))
    found = "is empty" if not names else "has none of the folders checkpoints/, shards/, ledger/"
    raise _no_line(url, found)


def _no_line(url: str, found: str) -> MissingError:
    return MissingError(
        f"There is no checkpoint line in {url}: it {found}. Nothing was changed. A line is "
        "CHECKPOINT_DIR/<job>-task-<index>; check the path."
    )


def _two_levels(url: str, store: "Store") -> Iterator[tuple[str, str]]:
    """What lies at a place and right below it. Of a directory no more is looked at: it may be somebody's home."""
    if url.startswith(CLOUD):
        yield from ((each[0], each[1]) for entry in store.list("") if (each := [*entry.name.split("/"), ""]))
        return
    for child in Path(url).iterdir():
        yield child.name, ""
        with suppress(OSError):  # what may not be read is no line that a command could use
            yield from ((child.name, grandchild.name) for grandchild in child.iterdir())


def _root_of(stack: str | None) -> str:
    """`gs://bucket[/folder]`; from here on the storage client speaks to the cloud of the stack."""
    from ops.stack import read_outputs

    outputs = read_outputs(stack)
    speak_to(outputs.endpoints)
    return outputs.checkpoint_url.rstrip("/").rpartition("/")[0]


def speak_to(endpoints: Mapping[str, str]) -> None:
    """An emulator left over in the environment must not answer for a real bucket, nor Google for the local cloud's."""
    from ops.cloud import bypass_proxies

    if url := endpoints.get("storage"):
        os.environ[EMULATOR] = url.rstrip("/").removesuffix("/storage/v1")
        bypass_proxies()
    else:
        os.environ.pop(EMULATOR, None)
