"""Which tensors of a state must be copied at the boundary, and which the saver may read later.

Later means while the optimizer's gate keeps them as they are. That can be believed of parameters and state of
optimizers that were seen at the gate, and of nothing else: buffers change in forward, gradients in backward, and a
moving average, frozen weights or an optimizer of another make whenever the program likes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from app.checkpoint import codec
from app.loop.accumulation import parameters
from app.loop.subjects import of_torch_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.checkpoint.codec import Encoded
    from app.loop.boundary import Boundary
    from app.loop.program import Program

SMALL_BYTES = 16 * 2**10
"""What is smaller is copied at the boundary: watching it would cost as much."""


_NUMBERS = {int, float, bool}


@dataclass(frozen=True)
class Parts:
    """A state encoded, and its blobs by what may be done with them; by index."""

    encoded: Encoded
    owned: list[int]
    """Copied when the boundary was captured, into host memory: nothing is left to do."""
    exposed: list[int]
    """To be copied at the boundary."""
    lendable: list[int]
    """May be read until the gate opens."""

    def size_bytes(self, indices: list[int]) -> int:
        return sum(self.encoded.blobs[index].size_bytes for index in indices)


def encode(program: Program, boundary: Boundary) -> Encoded:
    """The state at `boundary`, with live tensors, and which of them are frozen. Raises Unsavable."""
    return _encode(program, program.state(boundary))


def sort(program: Program, boundary: Boundary) -> Parts:
    """Raises Unsavable."""
    state = program.state(boundary)
    encoded = _encode(program, state)
    captured = {id(each) for each in leaves([boundary.volatile, boundary.buffers, boundary.groups])}
    lendable = _lendable(program, state) if program.gate_is_trusted else set[int]()
    parts = Parts(encoded, [], [], [])
    for index, blob in enumerate(encoded.blobs):
        if id(blob.value) in captured and _is_in_host_memory(blob.value):
            parts.owned.append(index)
        elif id(blob.value) in lendable and blob.size_bytes >= SMALL_BYTES and _is_plain(blob.value):
            parts.lendable.append(index)
        else:
            parts.exposed.append(index)
    return parts


def _encode(program: Program, state: dict[str, Any]) -> Encoded:
    encoded = codec.encode(state)
    held = {id(p) for each in of_torch_kind(program.optimizers).values() for p in parameters(each)}
    frozen = {
        parameter.data_ptr()
        for model in program.models.values()
        for parameter in model.parameters()
        if not parameter.requires_grad and id(parameter) not in held and parameter.numel()
    }
    if not frozen:
        return encoded
    in_models = {id(value) for key in program.models for value in state[key].values()}
    indices = (
        index
        for index, blob in enumerate(encoded.blobs)
        if blob.kind == "tensor" and id(blob.value) in in_models and blob.value.data_ptr() in frozen
    )
    return replace(encoded, frozen=frozenset(indices))


def _lendable(program: Program, state: dict[str, Any]) -> set[int]:
    """Identities of tensors in `state`."""
    known = of_torch_kind(program.optimizers)
    proven = {key: each for key, each in known.items() if program.was_seen(each)}
    doubtful = {id(p) for key, each in known.items() if key not in proven for p in parameters(each)}
    gated = {
        parameter.data_ptr()
        for each in proven.values()
        for parameter in parameters(each)
        if parameter.requires_grad and id(parameter) not in doubtful
    }
    found = {id(each) for key in proven for each in leaves(state[key].get("state"))}
    for key in program.models:
        found |= {
            id(value) for value in state[key].values() if hasattr(value, "data_ptr") and value.data_ptr() in gated
        }
    return found


def leaves(tree: object) -> Iterator[object]:
    """But for numbers in sequences: they have no bytes of their own."""
    if isinstance(tree, dict):
        for value in cast("dict[Any, object]", tree).values():
            yield from leaves(value)
    elif isinstance(tree, (list, tuple)):
        items = cast("list[object]", tree)
        if not set(map(type, items)) <= _NUMBERS:
            for value in items:
                yield from leaves(value)
    else:
        yield tree


def _is_in_host_memory(value: Any) -> bool:
    return not hasattr(value, "device") or not hasattr(value, "data_ptr") or value.device.type == "cpu"


def _is_plain(value: Any) -> bool:
    """Whether its bytes in memory are those that are saved, and its version tells of changes."""
    return (
        hasattr(value, "data_ptr")
        and value.device.type in ("cpu", "cuda")
        and value.is_contiguous()
        and not (value.is_conj() or value.is_neg() or value.is_inference())
    )
