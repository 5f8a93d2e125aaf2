"""Files that tasks write into a bucket's directory become objects: each gets the metadata that the emulator needs.

fake-gcs-server keeps an object's metadata in the extended attribute `user.metadata` and answers 404 for a whole
listing when one file lacks it. A second attribute of ours remembers for which modification time and size that
metadata was true.
"""

import base64
import errno
import json
import mimetypes
import mmap
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import crc32c

from localcloud.jsontypes import Json, obj
from localcloud.resources import timestamp

_METADATA = "user.metadata"
_STAMP = "user.localcloud.stamp"
_NEVER = "0001-01-01T00:00:00Z"


class AttributesMissingError(RuntimeError):
    """The state directory lies on a file system without user attributes, so objects could not be kept there."""


def check_file_system(directory: Path) -> None:
    """Fail early where stamps cannot be kept.

    Raises:
        AttributesMissingError: see there.
    """
    probe = directory / ".attributes"
    probe.touch()
    try:
        os.setxattr(probe, _STAMP, b"1")
    except (OSError, AttributeError) as error:
        raise AttributesMissingError(
            f"{directory} is on a file system without user extended attributes ({error}). Nothing was started. "
            "Choose a state directory on a local disk (ext4, xfs, btrfs): --state DIR."
        ) from error
    finally:
        probe.unlink()


def stamp_all(buckets_dir: Path) -> None:
    """Stamp every file of every bucket."""
    for bucket in buckets_dir.iterdir():
        if bucket.is_dir():
            stamp_tree(bucket, "")


def stamp_tree(bucket: Path, prefix: str) -> None:
    """Stamp the files below a bucket whose name can begin with the prefix."""
    directory = bucket / os.path.dirname(prefix)  # noqa: PTH120  # a prefix is text, its last part need not be a path
    for parent, _, names in os.walk(directory):
        for name in names:
            _stamp(Path(parent, name))


def stamp_object(buckets_dir: Path, bucket: str, name: str) -> None:
    """Stamp one object's file if there is one."""
    path = _path(buckets_dir, bucket, name)
    if path and path.is_file():
        _stamp(path)


def read(buckets_dir: Path, bucket: str, name: str) -> Json | None:
    """The metadata of a stamped object; None when there is no such object."""
    path = _path(buckets_dir, bucket, name)
    if path is None or not path.is_file():
        return None
    return _metadata(path)


def rename(buckets_dir: Path, bucket: str, source: str, target: str) -> None:
    """Give a stamped object another name, as a new generation of now, over what has that name already.

    Raises:
        FileNotFoundError: the object is gone.
        ValueError: no file can have that name.
    """
    old, new = _path(buckets_dir, bucket, source), _path(buckets_dir, bucket, target)
    if old is None or new is None:
        raise ValueError(f"{source} or {target} cannot be a file's name")
    metadata, written = _metadata(old) or {}, datetime.now(UTC)
    generation = max(int(written.timestamp() * 1e6), int(metadata.get("Generation", 0)) + 1)
    moved = {**metadata, "Created": timestamp(written), "Updated": timestamp(written), "Generation": generation}
    os.setxattr(old, _METADATA, json.dumps(moved).encode())
    new.parent.mkdir(parents=True, exist_ok=True)
    old.replace(new)


def _path(buckets_dir: Path, bucket: str, name: str) -> Path | None:
    """The object's file; None for a name that no file can have."""
    if not name or any(part in ("", ".", "..") for part in name.split("/")):
        return None
    return buckets_dir / bucket / name


def _metadata(path: Path) -> Json | None:
    try:
        return obj(json.loads(os.getxattr(path, _METADATA)))
    except (OSError, ValueError):
        return None


def _stamp(path: Path) -> None:
    with suppress(FileNotFoundError):
        status = path.stat()
        mark = f"{status.st_mtime_ns}:{status.st_size}".encode()
        try:
            if os.getxattr(path, _STAMP) == mark:
                return
        except OSError as error:
            if error.errno != errno.ENODATA:
                raise
        checksum = _crc32c(path)
        old = _metadata(path)
        if old is None or old.get("Crc32c") != checksum:
            new = _fresh(path, status, checksum, old)
            os.setxattr(path, _METADATA, json.dumps(new).encode())
        os.setxattr(path, _STAMP, mark)


def _fresh(path: Path, status: os.stat_result, checksum: str, old: Json | None) -> Json:
    written = timestamp(datetime.fromtimestamp(status.st_mtime, UTC))
    generation = max(status.st_mtime_ns // 1000, int((old or {}).get("Generation", 0)) + 1)
    return {
        "StorageClass": "STANDARD",
        "ContentType": mimetypes.guess_type(path.name)[0] or "application/octet-stream",
        "Crc32c": checksum,
        "Etag": checksum,
        "Created": written,
        "Updated": written,
        "Deleted": _NEVER,
        "CustomTime": _NEVER,
        "Generation": generation,
    }


def _crc32c(path: Path) -> str:
    """As Cloud Storage writes it: base64 of the big-endian sum."""
    total = 0
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                total = crc32c.crc32c(view)
    return base64.b64encode(total.to_bytes(4, "big")).decode()
