"""Names of Cloud Monitoring's metrics in PromQL, and the queries that charts and alerts share. Pure."""

from __future__ import annotations

import re

from infra.signals import Signal

WINDOW_MINUTES = 10
"""Log lines become points within minutes: a shorter look back would see gaps that are none."""


def metric_name(metric_type: str) -> str:
    """`run.googleapis.com/job/x` -> `run_googleapis_com:job_x`, by Cloud Monitoring's rule."""
    domain, _, path = metric_type.partition("/")
    return f"{re.sub(r'[^a-zA-Z0-9_]', '_', domain)}:{re.sub(r'[^a-zA-Z0-9_]', '_', path)}"


class JobQueries:
    """Queries about one job."""

    def __init__(self, job: str, region: str) -> None:
        self._job = job
        # A log-based metric may belong to several kinds of resource: which one must be said.
        self._labels = f'monitored_resource="cloud_run_job",job_name="{job}",location="{region}"'

    def google(self, metric: str, window: str = "", **labels: str) -> str:
        """A selector of one of Cloud Run's own metrics."""
        more = "".join(f',{label}="{value}"' for label, value in labels.items())
        return f"{metric_name(f'run.googleapis.com/{metric}')}{{{self._labels}{more}}}{window}"

    def lines(self, signal: Signal, window: str) -> str:
        """How many lines, by task."""
        suffix = "_count" if signal.field else ""
        return f"sum by (task) (increase({self._series(signal, suffix)}[{window}]))"

    def mean(self, signal: Signal, window: str) -> str:
        """The mean of the lines' values, by task. Exact: buckets have no part in it."""
        total = f"sum by (task) (increase({self._series(signal, '_sum')}[{window}]))"
        return f"({total} / {self.lines(signal, window)})"

    def _series(self, signal: Signal, suffix: str) -> str:
        return f"{metric_name(signal.metric_type(self._job))}{suffix}{{{self._labels}}}"
