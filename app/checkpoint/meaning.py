"""Whether a state that was decoded is one that a session can go on from, before anything of the program is touched."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any, cast

from app.checkpoint.manifest import Damaged

if TYPE_CHECKING:
    from app.checkpoint.reader import Loaded

_SENSELESS = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError, AssertionError),
    struct.error,
)
"""What generators say to a state that is none."""


def refuse_senseless(loaded: Loaded) -> None:
    """Raises Damaged unless step and generators are there and can be set."""
    state = loaded.state
    if not isinstance(state, dict):
        raise Damaged(f"its bytes verify but its state is a {type(state).__name__}")
    fields = cast("dict[str, Any]", state)
    if type(fields.get("step")) is not int or fields["step"] != loaded.head.step:
        raise Damaged(f"its state is of step {fields.get('step')!r}, its head of step {loaded.head.step}")
    try:
        _try_generators(fields["rng"])
        if any(key.partition(".")[0] == "model" for key in fields) and "torch" not in fields["rng"]:
            raise KeyError("torch")  # without which there is no model
    except _SENSELESS as error:
        raise Damaged(f"its bytes verify but its random generators cannot be set: {error!r}") from error


def _try_generators(states: dict[str, Any]) -> None:
    """On generators of our own."""
    random.Random().setstate(states["python"])  # noqa: S311 - no secrets here
    if "numpy" in states:
        import numpy as np

        np.random.RandomState().set_state(states["numpy"])
    if "torch" in states:
        import torch

        torch.Generator().set_state(states["torch"])
    for each in states.get("cuda", ()):
        if not each.nbytes:
            raise ValueError("a CUDA generator without a state")
