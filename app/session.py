"""The loop API: five lines that make a training loop survive being killed.

from app import session

with session(model=model, optimizer=optimizer, scheduler=scheduler, data=batches, total_steps=10_000) as run:
    for step in run.steps():              # starts where the newest verified checkpoint ends
        loss = train_step(model, optimizer, next(batches))
        run.log(loss=loss)                # one curve over all attempts
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn
    from torch.amp.grad_scaler import GradScaler
    from torch.optim import Optimizer

    from app.loop.run import Run
    from app.loop.subjects import Stateful
    from app.shutdown import Shutdown
    from app.startup import Start


def session(
    *,
    total_steps: int,
    model: nn.Module | Mapping[str, nn.Module] | None = None,
    optimizer: Optimizer | Stateful | Mapping[str, Optimizer | Stateful] | None = None,
    scheduler: Stateful | Mapping[str, Stateful] | None = None,
    data: Stateful | Mapping[str, Stateful] | None = None,
    scaler: GradScaler | Mapping[str, GradScaler] | None = None,
    extra: Stateful | Mapping[str, Stateful] | None = None,
    every_steps: int | None = None,
    every_minutes: float = 5.0,
    keep: int = 3,
    keep_every: int | None = None,
    snapshot: str = "auto",
    log_every: int = 1,
    identity: dict[str, Any] | None = None,
    fork: bool = False,
    start: Start | None = None,
    shutdown: Shutdown | None = None,
) -> Run:
    """A context manager around the training loop; see `app.loop.run.Run` for what it gives.

    model, optimizer, scheduler, scaler: one object or a dict of names to objects (an EMA copy is a second model).
    data, extra: anything with state_dict() and load_state_dict(); copied at every step, so keep it small.
    every_steps: save after so many steps; without it as often as 1 % of the time allows, at most `every_minutes` apart.
    keep: how many verified checkpoints stay (2 or more); besides, the first one at or past each multiple of
        `keep_every` steps.
    snapshot: how the state is copied for a periodic save. "eager": while the program stands still at a boundary.
    "deferred": during the next forward and backward. "streaming": not at all, where memory has no room for a copy; the
    optimizer then waits for the write. "auto": the first of them that costs at most 1 % of the time and fits.
    identity: JSON values that must be equal when the state is resumed, unless `fork`.
    start, shutdown: given by `python -m app`; a script of your own leaves them out, and what it does not catch then
    ends it with the exit code of docs/exit-codes.md.

    Raises Refusal (trying again cannot help) and TryAgain (storage trouble) with a message to act on, ValueError for
    arguments that mean nothing.
    """
    import math
    import os

    from app import shutdown as stopping
    from app import startup
    from app.contract import Task
    from app.loop import script
    from app.loop.identity import as_json
    from app.loop.interval import AtRisk, EverySteps
    from app.loop.options import Options
    from app.loop.program import Program
    from app.loop.run import Run
    from app.loop.snapshot import Mode

    total_steps, keep, log_every = (
        _whole(name, value) for name, value in (("total_steps", total_steps), ("keep", keep), ("log_every", log_every))
    )
    every_steps = None if every_steps is None else _whole("every_steps", every_steps)
    keep_every = None if keep_every is None else _whole("keep_every", keep_every)
    if total_steps < 0 or (every_steps is not None and every_steps < 1) or keep < 2 or log_every < 1:
        raise ValueError("total_steps must be 0 or more, every_steps and log_every 1 or more, keep 2 or more")
    if not 0 < every_minutes < math.inf:
        raise ValueError(f"every_minutes is {every_minutes}; it must be more than 0, and finite")
    if keep_every is not None and keep_every < 1:
        raise ValueError(f"keep_every is {keep_every}; it must be 1 or more, or None")
    if snapshot not in (modes := [mode.value for mode in Mode if mode is not Mode.DIRECT]):
        raise ValueError(f"snapshot is {snapshot!r}; it must be one of {', '.join(modes)}")
    identity = as_json(identity or {})
    shutdown = shutdown or stopping.process
    if start is None:
        shutdown.install()
        script.end_with_an_exit_code(shutdown)
        task = Task.from_environment(os.environ)
        start = startup.begin(task, startup.open_store(task))
    program = Program(model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler, data=data, extra=extra)
    options = Options(
        total_steps=total_steps,
        interval=EverySteps(every_steps) if every_steps else AtRisk(every_minutes),
        keep=keep,
        keep_every=keep_every,
        snapshot=Mode(snapshot),
        log_every=log_every,
        identity=identity,
        fork=fork,
    )
    return Run(program, options, start, shutdown)


def _whole(name: str, value: int) -> int:
    """A number of numpy or torch as Python's own, which alone can be written everywhere. Raises ValueError."""
    from operator import index

    try:
        return index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; it must be a whole number, such as int(...) gives") from None
