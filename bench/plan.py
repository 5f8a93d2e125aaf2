"""How much is measured: the whole, or a smoke test of it."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Plan:
    sizes: tuple[int, ...]
    """Bytes of state (parameters and AdamW's two moments) for saving and restoring."""
    pairs: int
    """Samples of each candidate in save, restore, small and resume; half as many from 1 GiB on."""
    loop_bytes: int
    """State in the loop that saves every `loop_steps` steps."""
    loop_steps: int
    loop_rounds: int
    blocked_bytes: int
    """State where the time that the loop is blocked is measured."""
    blocked_rounds: int
    large_bytes: int
    """State for memory and for the start of a process."""
    memory_peers: int
    """How many peers the memory suite starts a process for."""
    starts: int
    small_bytes: int
    many: int
    """So many small tensors against a hundred of the same bytes together."""
    checkpoints: int
    """Present on the line when a resume decides."""

    def pairs_of(self, size_bytes: int) -> int:
        return max(1, self.pairs // 2) if size_bytes >= 1024 * MIB else self.pairs


FULL = Plan(
    sizes=(16 * MIB, 256 * MIB, 1024 * MIB),
    pairs=10,
    loop_bytes=256 * MIB,
    loop_steps=10,
    loop_rounds=10,
    blocked_bytes=1024 * MIB,
    blocked_rounds=5,
    large_bytes=1024 * MIB,
    memory_peers=6,
    starts=4,
    small_bytes=128 * MIB,
    many=10_000,
    checkpoints=1_000,
)

QUICK = Plan(
    sizes=(16 * MIB,),
    pairs=2,
    loop_bytes=16 * MIB,
    loop_steps=10,
    loop_rounds=2,
    blocked_bytes=32 * MIB,
    blocked_rounds=1,
    large_bytes=64 * MIB,
    memory_peers=2,
    starts=1,
    small_bytes=8 * MIB,
    many=1_000,
    checkpoints=100,
)


def size_name(size_bytes: int) -> str:
    """`16 MiB`, `1 GiB`."""
    mib = size_bytes / MIB
    return f"{mib / 1024:g} GiB" if mib >= 1024 else f"{mib:g} MiB"
