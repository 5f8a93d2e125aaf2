"""The dashboard of a job, as the JSON that Cloud Monitoring keeps. Pure data, no pulumi.

No zero, empty text or empty list is ever written: the API answers without them, and each refresh would see a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infra import signals
from infra.promql import JobQueries
from infra.signals import Signal, of_the_job

COLUMNS = 12
_WIDTH, _HEIGHT = 6, 4
_MINUTE, _LOOK_BACK = "60s", "5m"

Json = dict[str, Any]


def dashboard(project: str, job: str, region: str) -> Json:
    """Progress first, then what it costs, then what the log says."""
    queries = JobQueries(job, region)
    restart = f"{signals.RESUMES.meaning.lower()} (a step curve that drops there is work done again)"
    widgets = [
        _chart(
            "Step, and the step that is durable",
            _line(queries.mean(signals.STEPS, _LOOK_BACK), "step"),
            _line(queries.mean(signals.DURABLE_STEPS, _LOOK_BACK), "durable step"),
        ),
        _chart("Loss", _mean(signals.LOSS, job, region)),
        _chart(
            "Work at risk: steps that a kill would lose",
            _line(
                f"{queries.mean(signals.STEPS, _LOOK_BACK)} - {queries.mean(signals.DURABLE_STEPS, _LOOK_BACK)}",
                "steps",
            ),
        ),
        _chart(f"Lost work: {restart}", _mean(signals.STEPS, job, region), _mean(signals.RESUMES, job, region)),
        _chart(
            "Save duration, s",
            _mean(signals.SAVE_SECONDS, job, region),
            _distribution(signals.SAVE_SECONDS, job, region, "REDUCE_PERCENTILE_95", "95th percentile"),
        ),
        _chart(
            "Interruptions, failed saves, verdicts",
            *(
                _count(signal, job, region)
                for signal in (signals.PREEMPTIONS, signals.TIMEOUTS, signals.SAVE_FAILURES, signals.GIVEN_UP)
            ),
        ),
        _chart(
            "Attempts: running, and ended by result",
            _line(f"sum({queries.google('job/running_task_attempts')})", "running"),
            _line(
                f"sum by (result) (increase({queries.google('job/completed_task_attempt_count', '[1h]')}))",
                "ended in the last hour: ${metric.labels.result}",
            ),
        ),
        _chart(
            "GPU hours billed in the last 24 h",
            # One GPU an instance.
            _line(f"sum(increase({queries.google('container/billable_instance_time', '[1d]')})) / 3600", "GPU hours"),
        ),
        _log_panel(project, job, region),
    ]
    return {"displayName": f"GPU job {job}", "mosaicLayout": {"columns": COLUMNS, "tiles": _tiles(widgets)}}


def _tiles(widgets: Sequence[Json]) -> list[Json]:
    """Two a row; the last one has a row of its own."""
    tiles: list[Json] = []
    for number, widget in enumerate(widgets):
        last = number == len(widgets) - 1
        row, column = divmod(number, COLUMNS // _WIDTH)
        if last and column:
            row, column = row + 1, 0
        place = {"xPos": column * _WIDTH, "yPos": row * _HEIGHT}
        size = {"width": COLUMNS if last else _WIDTH, "height": _HEIGHT}
        tiles.append({**{name: value for name, value in place.items() if value}, **size, "widget": widget})
    return tiles


def _chart(title: str, *data_sets: Json) -> Json:
    return {"title": title, "xyChart": {"dataSets": list(data_sets)}}


def _line(query: str, legend: str) -> Json:
    return {"plotType": "LINE", "legendTemplate": legend, "timeSeriesQuery": {"prometheusQuery": query}}


def _mean(signal: Signal, job: str, region: str) -> Json:
    return _distribution(signal, job, region, "REDUCE_MEAN", f"mean: {signal.meaning}")


def _distribution(signal: Signal, job: str, region: str, reducer: str, legend: str) -> Json:
    """One line a task."""
    return _filtered(signal, job, region, legend, plot="LINE", aligner="ALIGN_DELTA", reducer=reducer)


def _count(signal: Signal, job: str, region: str) -> Json:
    return _filtered(
        signal, job, region, signal.meaning, plot="STACKED_BAR", aligner="ALIGN_DELTA", reducer="REDUCE_SUM"
    )


def _filtered(signal: Signal, job: str, region: str, legend: str, *, plot: str, aligner: str, reducer: str) -> Json:
    aggregation: Json = {"alignmentPeriod": _MINUTE, "perSeriesAligner": aligner, "crossSeriesReducer": reducer}
    if signal.field:
        aggregation["groupByFields"] = ['metric.label."task"']
    chosen = f'metric.type="{signal.metric_type(job)}" AND {of_the_job(job, region)}'
    series = {"timeSeriesFilter": {"filter": chosen, "aggregation": aggregation}}
    return {"plotType": plot, "legendTemplate": legend, "timeSeriesQuery": series}


def _log_panel(project: str, job: str, region: str) -> Json:
    chosen = f"{of_the_job(job, region)} AND severity>=WARNING"
    return {
        "title": "Warnings and errors",
        "logsPanel": {"filter": chosen, "resourceNames": [f"projects/{project}"]},
    }
