"""Rules of the alert settings: thresholds that can be met, addresses that can be written to. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from infra.problems import Problem, problem_with
from infra.settings import Settings

MOST_CHANNELS = 16
"""Cloud Monitoring's limit for one alert policy."""
_ADDRESS = r"[^@\s,;<>\"]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+"


def check_alerts(s: Settings) -> Iterator[Problem]:
    """Thresholds and addresses, also where observability is off: it may be switched on later."""
    for name, minutes, least in (
        ("noProgressMinutes", s.no_progress_minutes, 20),
        ("atRiskMinutes", s.at_risk_minutes, 15),
    ):
        if not least <= minutes <= 1440:
            yield problem_with(name, f"{minutes} is out of range")
    if not 0 <= s.retries_left <= 9:
        yield problem_with("retriesLeft", f"{s.retries_left} is out of range")
    paste = "gpujob:notificationEmails:\n  - oncall@example.com"
    for address in s.notification_emails:
        if not re.fullmatch(_ADDRESS, address):
            yield problem_with("notificationEmails", f"{address!r} is no mail address", paste)
    if len({address.lower() for address in s.notification_emails}) < len(s.notification_emails):
        yield problem_with("notificationEmails", "an address is given twice", paste)
    if len(s.notification_emails) > MOST_CHANNELS:
        yield problem_with("notificationEmails", f"{len(s.notification_emails)} addresses", paste)


def alert_warnings(s: Settings) -> Iterator[str]:
    """A stack that is meant to last and tells nobody."""
    if s.observability and not s.disposable and not s.notification_emails:
        yield (
            "gpujob:notificationEmails: empty, so alerts open incidents in the console and nobody is told. "
            "A group's address outlives its members."
        )
