"""Names of attempts and checkpoints, and their order.

The platform's attempt number starts again with every execution, so each attempt claims a line-wide *epoch* and draws a
random nonce. Order is by (epoch, step): neither a zombie's later step nor the state before a rollback outranks its
successor.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

CHECKPOINTS = "checkpoints/"
SHARDS = "shards/"
QUARANTINE = "quarantine/"
LEDGER = "ledger/"

_ATTEMPT = re.compile(r"e(\d{4,})-([0-9a-f]{6})")
_CHECKPOINT = re.compile(r"(\d{12,})-e(\d{4,})-([0-9a-f]{6})(?:-r(\d+))?")


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
        return cls(int(match[1]), match[2]) if match else None


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

    def shard(self, index: int) -> str:
        return f"{self.shards}{index:03d}.safetensors"

    @classmethod
    def of(cls, attempt: Attempt, step: int, save_try: int = 0) -> CheckpointName:
        return cls(attempt.epoch, step, save_try, attempt.nonce)

    @classmethod
    def parse(cls, text: str) -> CheckpointName | None:
        """None for anything that is not a checkpoint's name (a stray file, a newer layout)."""
        match = _CHECKPOINT.fullmatch(text)
        return cls(int(match[2]), int(match[1]), int(match[4] or 0), match[3]) if match else None


def stem(object_name: str) -> str:
    """`checkpoints/X.json` -> `X`."""
    return object_name.rpartition("/")[2].removesuffix(".json")
