"""Keys about being told: whether the stack has metrics, alerts and a dashboard, when an alert comes, and to whom."""

from __future__ import annotations

from dataclasses import dataclass

from infra.keys.declaring import key

_POLICIES = "updates the alert policies"


@dataclass(frozen=True, kw_only=True)
class AlertKeys:
    """Observability. Thresholds are minutes, so that what counts as slow can follow the training."""

    observability: bool = key(
        True,
        "Whether log-based metrics, alert policies and a dashboard are made.",
        allowed="true, false",
        effect="adds or removes them",
    )
    notification_emails: tuple[str, ...] = key(
        (),
        "Who gets the alerts. Empty: alerts open incidents in the console and tell nobody.",
        allowed="a list of mail addresses, up to 16",
        effect="adds or removes channels; updates the alert policies",
    )
    no_progress_minutes: int = key(
        60,
        "How long an execution may run without a new durable step before there is an alert.",
        allowed="20 to 1440",
        effect=_POLICIES,
    )
    at_risk_minutes: int = key(
        20,
        "How long a task may make steps of which none becomes durable before there is an alert.",
        allowed="15 to 1440; above the interval between saves",
        effect=_POLICIES,
    )
    retries_left: int = key(
        1,
        "With how many retries left there is an alert. Never at the first attempt.",
        allowed="0 to 9",
        effect=_POLICIES,
    )
