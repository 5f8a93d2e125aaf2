"""Names of attempts and checkpoints, and their order.

The platform's attempt number starts again with every execution, so each attempt claims a line-wide *epoch* and draws a
random nonce. Order is by (epoch, step): neither a zombie's later step nor the state before a rollback outranks its
successor.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.checkpoint.storage.store import STAGED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.checkpoint.storage.store import Entry

CHECKPOINTS = "checkpoints/"
SHARDS = "shards/"
QUARANTINE = "quarantine/"
LEDGER = "ledger/"
FOLDERS = (CHECKPOINTS, SHARDS, QUARANTINE, LEDGER)
LATEST = "latest.json"
DONE = "done.json"

_ATTEMPT = re.compile(r"e([0-9]{4,})-([0-9a-f]{6})")
_CHECKPOINT = re.compile(r"([0-9]{12,})-e([0-9]{4,})-([0-9a-f]{6})(?:-r([0-9]+))?")


@dataclass(frozen=True, order=True)
class Attempt:
    """One attempt on a checkpoint line, e.g. `e0003-5f3c1e`. A greater one supersedes a smaller one."""

    epoch: int
    nonce: str = field(default_factory=lambda: secrets.token_hex(3))

    def __str__(self) -> str:
        return f"e{self.epoch:04d}-{self.nonce}"

    @property
    def document(self) -> str:
        """Object name of its ledger document; creating it claims the epoch."""
        return f"{LEDGER}{self}.json"

    @classmethod
    def parse(cls, text: str) -> Attempt | None:
        match = _ATTEMPT.fullmatch(text)
        found = cls(int(match[1]), match[2]) if match else None
        return found if str(found) == text else None

    @classmethod
    def of_document(cls, object_name: str) -> Attempt | None:
        """Whose ledger document it is; None for any other object, `ledger/old/e0003-5f3c1e.json` among them."""
        found = cls.parse(_stem(object_name))
        return found if found and found.document == object_name else None


@dataclass(frozen=True, order=True)
class CheckpointName:
    """A checkpoint, e.g. `000000000120-e0003-5f3c1e`: after 120 steps, by attempt e0003-5f3c1e."""

    epoch: int
    step: int
    save_try: int
    """Tells the second try to save a step from the first, whose bytes may still lie there."""
    nonce: str

    def __str__(self) -> str:
        again = f"-r{self.save_try}" if self.save_try else ""
        return f"{self.step:012d}-e{self.epoch:04d}-{self.nonce}{again}"

    @property
    def attempt(self) -> Attempt:
        return Attempt(self.epoch, self.nonce)

    @property
    def manifest(self) -> str:
        """Object name of its manifest; creating it is the commit."""
        return f"{CHECKPOINTS}{self}.json"

    @property
    def record(self) -> str:
        """Object name of its quarantine record."""
        return f"{QUARANTINE}{self}.json"

    @property
    def shards(self) -> str:
        """Prefix of its shards' object names."""
        return f"{SHARDS}{self}/"

    def shard(self, index: int, suffix: str = "safetensors") -> str:
        return f"{self.shards}{index:03d}.{suffix}"

    @classmethod
    def of(cls, attempt: Attempt, step: int, save_try: int = 0) -> CheckpointName:
        return cls(attempt.epoch, step, save_try, attempt.nonce)

    @classmethod
    def parse(cls, text: str) -> CheckpointName | None:
        """None for anything that is not a checkpoint's name as it is written (a stray file, a newer layout)."""
        match = _CHECKPOINT.fullmatch(text)
        found = cls(int(match[2]), int(match[1]), int(match[4] or 0), match[3]) if match else None
        return found if str(found) == text else None

    @classmethod
    def of_manifest(cls, object_name: str) -> CheckpointName | None:
        """Whose manifest it is; None for any other object, a copy in a folder below among them."""
        found = cls.parse(_stem(object_name))
        return found if found and found.manifest == object_name else None

    @classmethod
    def of_staged(cls, object_name: str) -> CheckpointName | None:
        """Whose manifest was laid ready there, not committed yet; None for any other object."""
        name = object_name.removeprefix(STAGED)
        return cls.parse(name.partition(".json")[0]) if name != object_name else None

    @classmethod
    def of_record(cls, object_name: str) -> CheckpointName | None:
        """Whose quarantine record it is; None for any other object."""
        found = cls.parse(_stem(object_name))
        return found if found and found.record == object_name else None


def checkpoints_among(entries: Iterable[Entry]) -> list[CheckpointName]:
    """Those whose manifests are among these objects, torn ones included, in the order of the objects."""
    return [name for entry in entries if (name := CheckpointName.of_manifest(entry.name))]


def _stem(object_name: str) -> str:
    """`checkpoints/X.json` -> `X`."""
    return object_name.rpartition("/")[2].removesuffix(".json")
