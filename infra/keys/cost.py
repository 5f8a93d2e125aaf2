"""Keys about money: your price, what an execution may cost at worst, what it is expected to."""

from __future__ import annotations

from dataclasses import dataclass

from infra.keys.declaring import key

_EXPORTS = "changes exports only"


@dataclass(frozen=True, kw_only=True)
class CostKeys:
    """Prices and limits. Numbers are texts so that an empty one can say: none."""

    gpu_usd_per_hour: str = key(
        "",
        "Your price of one GPU for an hour, US dollars. Empty: the list price that infra/accelerators.py knows.",
        allowed="empty, or a number like 0.67",
        effect=_EXPORTS,
    )
    max_exposure_usd: str = key(
        "",
        "What one execution may cost at worst, US dollars: a stack that could cost more is refused.",
        allowed="empty, or a number like 100",
        effect="changes nothing, or refuses everything",
    )
    training_hours: str = key(
        "",
        "How long one task would train if nothing interrupted it, hours: then the expected cost is exported too.",
        allowed="empty, or a number up to 10000 like 24",
        effect=_EXPORTS,
    )
    interruptions_per_day: str = key(
        "1",
        "How often a task is expected to be interrupted, for the expected cost only.",
        allowed="a number, at most 24",
        effect=_EXPORTS,
    )
