"""When somebody is told: one alert a policy, each with a runbook. Pure data, no pulumi.

Events that a single line tells of are matched in the log. What only time tells is asked in PromQL, with the check that
its metrics exist switched off: a log-based metric made a moment ago is unknown to Cloud Monitoring for up to ten
minutes, and a threshold policy on it would fail the first `pulumi up` ("Cannot find metric(s) that match type").
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.promql import WINDOW_MINUTES, JobQueries
from infra.settings import Settings
from infra.signals import DURABLE_STEPS, GIVEN_UP, STEPS, of_the_job

NO_PROGRESS = "no-durable-progress"
AT_RISK = "work-at-risk"
RETRIES = "retries-nearly-spent"
FAILED = "execution-failed"
BREAKER = "given-up"


@dataclass(frozen=True)
class Alert:
    """One policy. Exactly one of `query` and `log_filter` is set."""

    name: str
    title: str
    severity: str
    """CRITICAL, ERROR or WARNING, as Cloud Monitoring spells them."""
    query: str = ""
    """PromQL; what it yields is what is wrong."""
    for_minutes: int = 0
    """How long the query must go on yielding."""
    log_filter: str = ""
    at_most_every_s: int = 3600
    """Between two notifications about matching lines."""


def alerts_of(settings: Settings) -> tuple[Alert, ...]:
    """The alerts of a stack."""
    queries = JobQueries(settings.job, settings.region)
    window = f"{WINDOW_MINUTES}m"
    running = f"sum(max_over_time({queries.google('job/running_task_attempts', f'[{window}]')})) > 0"
    last = settings.max_retries
    # Not the first attempt: that one always begins.
    left = min(settings.retries_left, last - 1)
    failed = queries.google("job/completed_execution_count", f"[{window}]", result="failed")
    return (
        Alert(
            NO_PROGRESS,
            f"no durable step for {settings.no_progress_minutes} minutes",
            "ERROR",
            query=f"{running} unless sum({queries.lines(DURABLE_STEPS, window)}) > 0",
            # The window before counts already.
            for_minutes=settings.no_progress_minutes - WINDOW_MINUTES,
        ),
        Alert(
            AT_RISK,
            f"{settings.at_risk_minutes} minutes of work at risk",
            "WARNING",
            query=f"{queries.lines(STEPS, window)} > 0 unless on (task) {queries.lines(DURABLE_STEPS, window)} > 0",
            for_minutes=settings.at_risk_minutes - WINDOW_MINUTES,
        ),
        Alert(
            RETRIES,
            f"retries left: {left}",
            "WARNING",
            log_filter=f"{of_the_job(settings.job, settings.region)} AND {_attempts(last - left, last)}",
        ),
        Alert(FAILED, "an execution failed", "CRITICAL", query=f"sum(increase({failed})) > 0"),
        Alert(
            BREAKER,
            "the no-progress breaker gave its verdict",
            "CRITICAL",
            log_filter=GIVEN_UP.filter(settings.job, settings.region),
        ),
    )


def _attempts(first: int, last: int) -> str:
    """Lines of these attempts, named one by one: the label is a text."""
    attempts = " OR ".join(f'"{number}"' for number in range(first, last + 1))
    return f'labels."run.googleapis.com/task_attempt"=({attempts})'
