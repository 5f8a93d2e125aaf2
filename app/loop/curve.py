"""The curve: one log line a step, over all attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsFloat

from app import logs

if TYPE_CHECKING:
    import torch

    from app.clock import Clock

    Metric = torch.Tensor | SupportsFloat


class Curve:
    """Writes `step N/TOTAL`, the metrics and tokens a second, every `log_every` steps and for the last."""

    def __init__(self, total_steps: int, log_every: int, clock: Clock) -> None:
        self._total_steps = total_steps
        self._log_every = log_every
        self._clock = clock
        self._tokens = 0
        self._since = clock.now_s()

    def begin(self) -> None:
        """The first step starts now: what came before is no training time."""
        self._since = self._clock.now_s()

    def point(self, done: int, tokens: int, metrics: dict[str, Metric], unseen: dict[str, float]) -> None:
        """After `done` steps. Tensors are read only when a line is due: that waits for the device.

        `unseen` are fields of the line that its text does not show.
        """
        self._tokens += tokens
        if done % self._log_every and done != self._total_steps:
            return
        now = self._clock.now_s()
        fields = {name: _number(value) for name, value in metrics.items()}
        if self._tokens:
            fields["tokens_per_s"] = round(self._tokens / max(now - self._since, 1e-9), 1)
        self._tokens, self._since = 0, now
        text = "".join(f"  {name} {value:.4g}" for name, value in fields.items())
        logs.info(f"step {done}/{self._total_steps}{text}", step=done, **fields, **unseen)


def _number(value: Any) -> float:
    return float(value.detach() if hasattr(value, "detach") else value)
