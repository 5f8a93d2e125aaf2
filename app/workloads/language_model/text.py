"""Text as bytes, and shuffled windows of it whose position a checkpoint can hold."""

from __future__ import annotations

import hashlib
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from app.contract import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

VOCABULARY = 256
"""Tokens are bytes: no tokenizer to train, download or version."""
SUFFIXES = {".txt", ".md", ".rst", ".py", ".json", ".html", ".csv", ".xml"}


def load(source: str | None, limit_bytes: int) -> torch.Tensor:
    """Up to `limit_bytes` of text, uint8, files in order of their names. Raises Refusal when there is none.

    source: a folder, a `gs://bucket/prefix`, or None for the source of this Python's standard library.
    """
    if source is None:
        files = _standard_library()
    elif source.startswith("gs://"):
        files = _bucket(source)
    else:
        files = _folder(Path(source))
    text = bytearray()
    for content in files:
        text += content
        if len(text) >= limit_bytes:
            break
    if len(text) < 2:
        raise Refusal(f"--data {source!r} holds no text: files ending in {', '.join(sorted(SUFFIXES))} are read.")
    return torch.frombuffer(text[:limit_bytes], dtype=torch.uint8)


def fingerprint(text: torch.Tensor) -> str:
    """Tells one corpus from another."""
    return f"{text.numel()} bytes, sha256 {hashlib.sha256(memoryview(cast('Any', text.numpy()))).hexdigest()[:12]}"


class Windows:
    """Endless batches (inputs, targets), each [batch, context] int64; all windows are shuffled anew every epoch."""

    def __init__(self, text: torch.Tensor, *, context: int, batch: int, seed: int) -> None:
        self._text = text
        self._context = context
        self._batch = batch
        self._seed = seed
        self._epoch = 0
        self._position = 0
        self._count = (text.numel() - 1) // context
        if self._count < batch:
            raise Refusal(
                f"The text of {text.numel()} bytes gives {self._count} windows of {context} bytes, fewer than one "
                f"batch of {batch}. Give more text with --data, or a smaller --batch-size."
            )
        self._order = self._shuffled()

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return self

    def __next__(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._position + self._batch > self._count:
            self._epoch, self._position = self._epoch + 1, 0
            self._order = self._shuffled()
        picked = self._order[self._position : self._position + self._batch]
        self._position += self._batch
        starts = torch.from_numpy(picked) * self._context
        windows = self._text[starts[:, None] + torch.arange(self._context + 1)].long()
        return windows[:, :-1], windows[:, 1:]

    def state_dict(self) -> dict[str, Any]:
        return {"seed": self._seed, "epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._seed, self._epoch, self._position = state["seed"], state["epoch"], state["position"]
        self._order = self._shuffled()

    def _shuffled(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.random.default_rng([self._seed, self._epoch]).permutation(self._count)


def _standard_library() -> Iterator[bytes]:
    root = Path(sysconfig.get_paths()["stdlib"])
    for package in ("", "asyncio", "collections", "concurrent", "email", "http", "json", "logging", "unittest", "xml"):
        for path in sorted((root / package).glob("*.py")):
            yield path.read_bytes()


def _folder(root: Path) -> Iterator[bytes]:
    if not root.is_dir():
        raise Refusal(f"--data {root} is not a folder.")
    for path in sorted(root.rglob("*")):
        if path.suffix in SUFFIXES and path.is_file():
            yield path.read_bytes()


def _bucket(address: str) -> Iterator[bytes]:
    import os

    from google.api_core.exceptions import ClientError, TooManyRequests
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import DefaultCredentialsError, RefreshError
    from google.cloud import storage

    bucket, _, prefix = address.removeprefix("gs://").partition("/")
    try:
        if os.environ.get("STORAGE_EMULATOR_HOST"):
            client = storage.Client(project="local", credentials=AnonymousCredentials())
        else:
            client = storage.Client()
        found = {str(blob.name): blob for blob in client.list_blobs(bucket, prefix=prefix)}
        for name in sorted(found):
            if Path(name).suffix in SUFFIXES:
                yield found[name].download_as_bytes()
    except TooManyRequests:
        raise
    except (DefaultCredentialsError, RefreshError) as error:
        raise Refusal(
            f"--data {address} cannot be read: there are no credentials for Cloud Storage ({error}). In a job the "
            "service account's are found; by hand: gcloud auth application-default login"
        ) from error
    except (ClientError, ValueError) as error:
        raise Refusal(
            f"--data {address} cannot be read: {error}. Check the bucket's name, and that the service account has "
            "roles/storage.objectViewer on it."
        ) from error
