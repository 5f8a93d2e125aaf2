"""A checkpoint of something else is refused: what the state belongs to must be the same on both sides."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from app import logs
from app.contract import Refusal

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from app.loop.program import Program

OF_OBJECT = "the session's "
"""Before the key of an object where the user's identity has that key as well."""
MOST_BYTES = 2**20
"""As JSON. The documents that carry it are not read when they are many times larger (storage/store.py)."""


def as_json(identity: Mapping[str, Any]) -> dict[str, Any]:
    """As a manifest gives it back. Raises ValueError, naming the key, for what JSON turns into something else."""
    found = dict[str, Any]()
    for key, value in identity.items():
        try:
            (came_back,) = json.loads(json.dumps({key: value}, allow_nan=False)).items()
        except (TypeError, ValueError, RecursionError):
            came_back = (None, None)
        if came_back != (key, value):
            raise ValueError(
                f"identity[{key!r}] is {value!r}, which is not the same after a way through JSON, so no checkpoint "
                "could ever be resumed with it. Use text, whole or finite numbers, true, false, None, and lists and "
                "dicts of them with text as keys: str(path), list(shape)."
            )
        found[key] = came_back[1]
    if (size := len(json.dumps(found))) > MOST_BYTES:
        raise ValueError(
            f"identity has {size:,} bytes as JSON; every checkpoint carries it, and it may have {MOST_BYTES:,}. "
            "Give a digest of what is large."
        )
    return found


def differences(saved: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """One sentence a key whose values differ, naming both."""
    return [
        f"{key}: {saved.get(key)!r} in the checkpoint, {here.get(key)!r} here"
        for key in sorted(saved.keys() | here.keys())
        if saved.get(key) != here.get(key)
    ]


def refuse_another(checkpoint: str, saved: Mapping[str, Any], here: Mapping[str, Any], *, fork: bool) -> None:
    """Raises Refusal when `checkpoint` belongs to something else, unless the user forks from it on purpose."""
    untold = {key: value for key, value in here.items() if key.startswith(OF_OBJECT)}  # in earlier checkpoints
    told = "; ".join(differences({**untold, **saved}, here))
    if not told:
        return
    if not fork:
        raise Refusal(
            f"Checkpoint {checkpoint} belongs to something else: {told}. Nothing was changed. Run with the settings it "
            "was made with, use another CHECKPOINT_DIR or job name, or continue from it on purpose with --fork "
            "(fork=True), which accepts another identity but never other tensors."
        )
    logs.warning(f"Forking from checkpoint {checkpoint} in spite of: {told}.")


@contextmanager
def naming(checkpoint: str) -> Generator[None]:
    """Around what refuses a state without knowing which checkpoint it is of."""
    try:
        yield
    except Refusal as refused:
        if type(refused) is not Refusal or checkpoint in str(refused):
            raise
        raise Refusal(f"Checkpoint {checkpoint} cannot be used. {refused}") from refused


def of_session(program: Program, own: Mapping[str, Any]) -> dict[str, Any]:
    """What its objects say and what the user gave; of a key that both have the user's value keeps the name."""
    objects = {f"{OF_OBJECT}{key}" if key in own else key: told for key, told in _of_objects(program).items()}
    return {**objects, **own}


def _of_objects(program: Program) -> dict[str, str]:
    """A model's tensors by name, shape and dtype; an optimizer's class."""
    found = dict[str, str]()
    for key, model in program.models.items():
        tensors = {name: t for name, t in model.state_dict().items() if hasattr(t, "numel")}
        listing = "\n".join(f"{name} {t.dtype} {list(t.shape)}" for name, t in sorted(tensors.items()))
        digest = hashlib.sha256(listing.encode()).hexdigest()[:12]
        found[key] = f"{len(tensors)} tensors, {sum(t.numel() for t in tensors.values())} values, {digest}"
    found |= {key: type(optimizer).__name__ for key, optimizer in program.optimizers.items()}
    return found
