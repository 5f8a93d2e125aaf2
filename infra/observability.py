"""What tells people how the job does: log-based metrics, alerts that carry their runbook, channels, a dashboard."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import logging, monitoring

from infra import signals
from infra.alerts import Alert, alerts_of
from infra.dashboard import dashboard
from infra.outputs import CONSOLE
from infra.ownership import USER_LABEL_STAYS, described
from infra.runbooks import documentation
from infra.settings import Settings
from infra.signals import TASK_LABELS, Signal

AUTO_CLOSE = "1800s"
"""An incident without further data is over after half an hour: the shortest that Cloud Monitoring takes."""
EVALUATED_EVERY = "60s"


@dataclass(frozen=True)
class ObservabilityArgs:
    """Which job is looked at, what is alarming, and who is told."""

    project: str
    region: str
    job: str
    alerts: tuple[Alert, ...]
    emails: tuple[str, ...]
    stack: str
    labels: Mapping[str, str]

    @classmethod
    def of(cls, settings: Settings) -> ObservabilityArgs:
        """As this stack wants it."""
        return cls(
            project=settings.project,
            region=settings.region,
            job=settings.job,
            alerts=alerts_of(settings),
            emails=settings.notification_emails,
            stack=settings.stack,
            labels=settings.own_labels,
        )


class Observability(pulumi.ComponentResource):
    """Deliberately knows the job by name only: it may be made before, after or without the job."""

    dashboard_url: pulumi.Output[str]
    """In the console."""

    def __init__(self, name: str, args: ObservabilityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:infra:Observability", name, None, opts)
        for signal in signals.ALL:
            _metric(name, args, signal, self)
        channels = [_channel(name, args, address, self) for address in args.emails]
        for alert in args.alerts:
            _policy(name, args, alert, [channel.name for channel in channels], self)
        board = monitoring.Dashboard(
            f"{name}-dashboard",
            project=args.project,
            dashboard_json=json.dumps(dashboard(args.project, args.job, args.region), indent=1),
            opts=pulumi.ResourceOptions(parent=self),
        )
        number = board.id.apply(lambda path: path.rpartition("/")[2])
        self.dashboard_url = pulumi.Output.concat(
            f"{CONSOLE}/monitoring/dashboards/builder/", number, f"?project={args.project}"
        )
        self.register_outputs({"dashboardUrl": self.dashboard_url})


def observe(settings: Settings, after: pulumi.ResourceOptions) -> pulumi.Output[str] | None:
    """All of it, unless the stack wants none; returns where the dashboard is."""
    if not settings.observability:
        return None
    return Observability("observability", ObservabilityArgs.of(settings), after).dashboard_url


def _metric(name: str, args: ObservabilityArgs, signal: Signal, parent: pulumi.Resource) -> logging.Metric:
    return logging.Metric(
        f"{name}-{signal.name}",
        project=args.project,
        name=signal.metric(args.job),
        description=described(args.stack, f"{signal.meaning}, job {args.job}."),
        filter=signal.filter(args.job, args.region),
        value_extractor=signal.value_extractor,
        label_extractors=dict(TASK_LABELS),
        metric_descriptor=logging.MetricMetricDescriptorArgs(
            metric_kind="DELTA",
            value_type="DISTRIBUTION" if signal.field else "INT64",
            unit=signal.unit,
            labels=[
                logging.MetricMetricDescriptorLabelArgs(key=label, value_type="STRING") for label in sorted(TASK_LABELS)
            ],
        ),
        # The name is fixed: a second metric of that name cannot exist beside the first.
        opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True, ignore_changes=["description"]),
    )


def _channel(
    name: str, args: ObservabilityArgs, address: str, parent: pulumi.Resource
) -> monitoring.NotificationChannel:
    return monitoring.NotificationChannel(
        f"{name}-email-{address}",
        project=args.project,
        type="email",
        display_name=f"GPU job {args.job}: {address}",
        labels={"email_address": address},
        user_labels=dict(args.labels),
        opts=pulumi.ResourceOptions(parent=parent, ignore_changes=[USER_LABEL_STAYS]),
    )


def _policy(
    name: str,
    args: ObservabilityArgs,
    alert: Alert,
    channels: Sequence[pulumi.Input[str]],
    parent: pulumi.Resource,
) -> monitoring.AlertPolicy:
    limit = monitoring.AlertPolicyAlertStrategyNotificationRateLimitArgs(period=f"{alert.at_most_every_s}s")
    return monitoring.AlertPolicy(
        f"{name}-{alert.name}",
        project=args.project,
        display_name=f"GPU job {args.job}: {alert.title}",
        combiner="OR",
        severity=alert.severity,
        conditions=[_condition(alert)],
        alert_strategy=monitoring.AlertPolicyAlertStrategyArgs(
            auto_close=AUTO_CLOSE,
            # Needed for a log match, and for nothing else.
            notification_rate_limit=limit if alert.log_filter else None,
        ),
        documentation=monitoring.AlertPolicyDocumentationArgs(
            content=documentation(alert.name, args.job, args.region, args.project), mime_type="text/markdown"
        ),
        notification_channels=list(channels),
        user_labels=dict(args.labels),
        opts=pulumi.ResourceOptions(parent=parent, ignore_changes=[USER_LABEL_STAYS]),
    )


def _condition(alert: Alert) -> monitoring.AlertPolicyConditionArgs:
    if alert.log_filter:
        match = monitoring.AlertPolicyConditionConditionMatchedLogArgs(filter=alert.log_filter)
        return monitoring.AlertPolicyConditionArgs(display_name=alert.title, condition_matched_log=match)
    query = monitoring.AlertPolicyConditionConditionPrometheusQueryLanguageArgs(
        query=alert.query,
        # A zero is answered as nothing, and would be a change at each refresh.
        duration=f"{alert.for_minutes * 60}s" if alert.for_minutes else None,
        evaluation_interval=EVALUATED_EVERY,
        # A metric that was made a moment ago is not known everywhere yet.
        disable_metric_validation=True,
    )
    return monitoring.AlertPolicyConditionArgs(display_name=alert.title, condition_prometheus_query_language=query)
