"""Which tensors of a checkpoint are a model's weights, and where in one file each of them is to lie."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ops.errors import MissingError, RefusedError

if TYPE_CHECKING:
    from app.checkpoint.manifest import Manifest
    from app.checkpoint.table import Place as TensorPlace


@dataclass(frozen=True)
class Weight:
    """One tensor of the file."""

    name: str
    also: tuple[str, ...]
    """Further names of the same tensor."""
    place: TensorPlace
    begin: int
    """In the file's data section."""
    size_bytes: int


def weights_of(manifest: Manifest, typed: str | None, checkpoint: str) -> list[Weight]:
    """Those of the model that `typed` names, or of the only one, in the order of its state_dict. Raises OpsError."""
    return _laid_out(_found(manifest, typed, checkpoint), checkpoint)


def _found(manifest: Manifest, typed: str | None, checkpoint: str) -> list[tuple[tuple[str, ...], TensorPlace]]:
    """Names and place of each tensor of the model's state_dict, in its order."""
    from app.checkpoint.verifying import checked_table

    if manifest.head.files is not None:
        raise RefusedError(
            f"Checkpoint {checkpoint} is a directory tree of {manifest.head.files} files, not the state of a session: "
            "its weights are files of the tree already. Nothing was written. app.trees restores it."
        )
    table = checked_table(manifest)
    models = {key: value for key, value in cast("dict[str, Any]", table.tree).items() if key.split(".")[0] == "model"}
    key = _chosen(sorted(models), typed, checkpoint)
    names = dict[int, list[str]]()
    for name, node in _items(models[key]):
        mark = next(iter(cast("dict[str, Any]", node)), "") if isinstance(node, dict) else ""
        if mark == "$subclass":
            raise RefusedError(
                f"{name} of checkpoint {checkpoint} is a tensor of class {node['$subclass'][0]}, which safetensors has "
                "no form for. Nothing was written. Export from the program, after converting it to plain tensors."
            )
        if mark == "$tensor":
            names.setdefault(int(node["$tensor"]), []).append(name)
    return [(tuple(sorted(each)), table.places[index]) for index, each in names.items()]


def _chosen(models: list[str], typed: str | None, checkpoint: str) -> str:
    short = [key.removeprefix("model").removeprefix(".") or "model" for key in models]
    if not models:
        raise MissingError(f"Checkpoint {checkpoint} holds no model. Nothing was written.")
    if typed is None and len(models) == 1:
        return models[0]
    if typed in short:
        return models[short.index(typed or "")]
    told = f"no model {typed}" if typed else f"{len(models)} models"
    raise MissingError(
        f"Checkpoint {checkpoint} holds {told}. Nothing was written. Choose with --model: {', '.join(short)}."
    )


def _items(node: Any) -> Iterator[tuple[str, Any]]:
    """Items of an encoded dict (docs/checkpoints.md, "Shards and the tree"); keys that are no text are left out."""
    if not isinstance(node, dict):
        return
    fields = cast("dict[str, Any]", node)
    if set(fields) == {"$attributed"}:  # what torch's state_dict() is: with a version of each module
        yield from _items(fields["$attributed"][0])
        return
    for mark in ("$ordered", "$dict"):
        if set(fields) == {mark}:
            yield from ((key, value) for key, value in fields[mark] if isinstance(key, str))
            return
    yield from fields.items()


def _laid_out(found: list[tuple[tuple[str, ...], TensorPlace]], checkpoint: str) -> list[Weight]:
    from app.checkpoint.shards.safetensors_file import DTYPES

    weights, begin = list[Weight](), 0
    for names, place in found:
        if place.dtype not in DTYPES:
            raise RefusedError(
                f"{names[0]} of checkpoint {checkpoint} is of dtype {place.dtype}, for which safetensors has no word "
                "that its reader knows. Nothing was written."
            )
        size = math.prod(place.shape) * DTYPES[place.dtype][1]
        weights.append(Weight(names[0], names[1:], place, begin, size))
        begin += size
    return weights
