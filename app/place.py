"""Where checkpoint lines are kept: a directory, or a place in a Cloud Storage bucket, gs://bucket/some/prefix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEME = "gs://"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


@dataclass(frozen=True)
class BucketPath:
    """Joined with "/", as a `pathlib.Path` is."""

    bucket: str
    prefix: str = ""
    """Without a slash at either end; empty for the whole bucket."""

    def __str__(self) -> str:
        return "/".join([f"{SCHEME}{self.bucket}", *self._parts(self.prefix)])

    def __truediv__(self, name: str) -> BucketPath:
        return BucketPath(self.bucket, "/".join([*self._parts(self.prefix), *self._parts(name)]))

    @classmethod
    def parse(cls, text: str) -> BucketPath:
        """Raises ValueError, saying what is wrong."""
        bucket, _, prefix = text.removeprefix(SCHEME).partition("/")
        if not text.startswith(SCHEME) or not _BUCKET.fullmatch(bucket):
            raise ValueError("an address must be gs://BUCKET or gs://BUCKET/PREFIX, with a bucket's name in lower case")
        parts = cls._parts(prefix)
        if {".", ".."} & set(parts) or not prefix.isprintable():
            raise ValueError('its prefix must not hold ".", ".." or unprintable characters')
        return cls(bucket, "/".join(parts))

    @staticmethod
    def _parts(text: str) -> Iterable[str]:
        return [part for part in text.split("/") if part]


Place = Path | BucketPath


def place_of(text: str) -> Place:
    """Raises ValueError, saying what is wrong."""
    if "://" not in text and text.startswith(SCHEME.rstrip("/")):
        raise ValueError(f"it begins as an address does: did you mean {SCHEME}{text[3:].lstrip('/')}?")
    return BucketPath.parse(text) if "://" in text else Path(text)
