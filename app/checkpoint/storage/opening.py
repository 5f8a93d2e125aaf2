"""From CHECKPOINT_DIR to a store: a directory (a disk or a mounted bucket), or gs://bucket/prefix without a mount."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from app.checkpoint.names import FOLDERS
from app.checkpoint.storage.directory import DirectoryStore, make_directory
from app.checkpoint.storage.files import sync_and_close
from app.checkpoint.storage.medium import Medium, medium_of
from app.checkpoint.storage.unsynced import open_directory
from app.contract import Refusal
from app.place import SCHEME, BucketPath, Place, place_of

if TYPE_CHECKING:
    from app.checkpoint.storage.store import Store


def open_root(where: str) -> Store:
    """What a command line's argument names, lines or one line, as it is. Raises Refusal and OSError."""
    try:
        return open_store(place_of(where))
    except ValueError as error:
        raise Refusal(f"{where!r} is no place of checkpoints: {error}. Or give a directory.") from None


def open_store(place: Place) -> Store:
    """A store for the line, or the lines, at `place`, as it is: nothing is made or looked at. Raises OSError."""
    if isinstance(place, Path):
        return DirectoryStore(place)
    from app.checkpoint.storage.cloud_storage import CloudStorageStore

    return CloudStorageStore(place.bucket, place.prefix)


def is_there(root: Place) -> bool:
    """Whether the directory or the bucket exists. Raises OSError: no credentials, no permission, trouble."""
    if isinstance(root, Path):
        return root.is_dir()
    from app.checkpoint.storage.cloud_storage import CloudStorageStore

    try:
        CloudStorageStore(root.bucket, root.prefix).look()
    except FileNotFoundError:
        return False
    return True


def absent(root: Place) -> str:
    """What to say when it is not there."""
    if isinstance(root, BucketPath):
        return (
            f"CHECKPOINT_DIR {root}: there is no bucket {root.bucket}. Check its name; `pulumi up` makes the one of a "
            f"stack, by hand: gcloud storage buckets create {SCHEME}{root.bucket} --soft-delete-duration=0. Nothing "
            "was written."
        )
    found = "is not a directory" if root.exists() else "does not exist"
    return (
        f"CHECKPOINT_DIR {root} {found}. In a job this means that the bucket's volume is not mounted there: check "
        "the job's volume and mount path. By hand: create the directory first. Nothing was written."
    )


def make_line(line: Place) -> None:
    """On a disk durable, as all that lies in it will be.

    Raises NotADirectoryError for a folder of it whose place is taken: a save would find out hours later.
    """
    if isinstance(line, BucketPath):
        return  # a bucket has no folders
    make_directory(line)
    if medium_of(line) is Medium.DISK:
        with suppress(PermissionError):  # a directory that may be written and not be read cannot be synced
            sync_and_close(open_directory(line.parent))
    with os.scandir(line) as found:
        for item in found:
            if f"{item.name}/" in FOLDERS and not item.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "A file has the place of this directory", item.path)
