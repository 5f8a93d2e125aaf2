"""Where a state was made, and the hash that tells whether two runs ended with the same weights."""

from __future__ import annotations

import hashlib
import platform
import sys
from typing import TYPE_CHECKING, Any

from app import logs
from app.checkpoint import codec
from app.checkpoint.shards import blocks

if TYPE_CHECKING:
    from collections.abc import Mapping


def environment() -> dict[str, Any]:
    """What bit-identical continuation depends on, as far as it can be asked."""
    found: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine()}
    torch = sys.modules.get("torch")
    if torch is not None:
        found |= {
            "torch": torch.__version__,
            "cuda": torch.version.cuda if torch.cuda.is_available() else None,
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "threads": torch.get_num_threads(),
        }
    return found


def tell_differences(saved: dict[str, Any]) -> None:
    """Log what differs from where the checkpoint was made: results may then differ in the last bits."""
    here = environment()
    differing = [
        f"{key} {saved[key]!r} -> {here[key]!r}"
        for key in sorted(saved.keys() & here.keys())
        if saved[key] != here[key]
    ]
    if differing:
        logs.warning(
            f"The checkpoint was made elsewhere ({', '.join(differing)}): results may differ in the last bits."
        )


def weights_sha256(weights: Mapping[str, Any]) -> str:
    """sha256 over name, dtype, shape and raw bytes of every tensor, in order of names.

    For each tensor: the UTF-8 line `name dtype [d0, d1, ...]\\n`, then its row-major little-endian bytes. Entries
    that are not tensors (a module's extra state) are left out. A tensor of a registered subclass counts as the tensors
    that it is made of, `name/part` each. No tensors: the hash of nothing.
    """
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name]
        if not hasattr(tensor, "untyped_storage"):
            continue
        for blob in codec.encode(tensor).blobs:
            part = f"{name}/{blob.path}" if blob.path else name
            digest.update(f"{part} {blob.dtype} {list(blob.shape)}\n".encode())
            for piece in blocks.stream(b"", [blob]):
                digest.update(piece)
    return digest.hexdigest()
