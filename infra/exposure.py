"""What one execution can cost at worst: every attempt of every task runs to its timeout and is billed in full."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Exposure:
    """Worst case of one execution."""

    gpu_hours: float
    usd: float | None
    """None where the price of the GPU is unknown."""


def worst_case(*, timeout_s: int, max_retries: int, tasks: int, usd_per_hour: float | None) -> Exposure:
    """timeout x (retries + 1) x tasks; a retry gets the full timeout again, and interrupted attempts are billed."""
    gpu_hours = timeout_s * (max_retries + 1) * tasks / 3600
    usd = None if usd_per_hour is None else round(gpu_hours * usd_per_hour, 2)
    return Exposure(gpu_hours=round(gpu_hours, 3), usd=usd)
