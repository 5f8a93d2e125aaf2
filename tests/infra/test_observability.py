"""Metrics, alerts, channels and dashboard as the program registers them, whole."""

import json

import pytest

from infra import signals
from infra.alerts import alerts_of
from infra.dashboard import dashboard
from infra.rules import parse
from infra.runbooks import documentation

METRIC = "gcp:logging/metric:Metric"
CHANNEL = "gcp:monitoring/notificationChannel:NotificationChannel"
POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"
DASHBOARD = "gcp:monitoring/dashboard:Dashboard"
JOB, REGION, PROJECT = "gpu-resilient-job", "europe-west4", "demo-project"
OF_THE_JOB = (
    'resource.type="cloud_run_job" AND resource.labels.job_name="gpu-resilient-job" '
    'AND resource.labels.location="europe-west4"'
)
TASK = {"task": 'EXTRACT(labels."run.googleapis.com/task_index")'}
LABELS = {"app": "gpujob", "gpujob-stack": "any"}


def test_a_counter_whole(deploy):
    assert deploy().of_type(METRIC)["observability-preemptions"] == {
        "project": PROJECT,
        "name": "gpu-resilient-job/preemptions",
        "description": (
            "Attempts that the platform ended for maintenance of the host, job gpu-resilient-job. Made by stack any."
        ),
        "filter": f'{OF_THE_JOB} AND textPayload:"preemption initiated by the platform" '
        'AND NOT logName:"run.googleapis.com%2Fstd"',
        "labelExtractors": TASK,
        "metricDescriptor": {
            "metricKind": "DELTA",
            "valueType": "INT64",
            "unit": "1",
            "labels": [{"key": "task", "valueType": "STRING"}],
        },
    }


def test_a_distribution_whole(deploy):
    assert deploy().of_type(METRIC)["observability-save_seconds"] == {
        "project": PROJECT,
        "name": "gpu-resilient-job/save_seconds",
        "description": "How long saves took, job gpu-resilient-job. Made by stack any.",
        "filter": f"{OF_THE_JOB} AND jsonPayload.save_s:*",
        "valueExtractor": "EXTRACT(jsonPayload.save_s)",
        "labelExtractors": TASK,
        "metricDescriptor": {
            "metricKind": "DELTA",
            "valueType": "DISTRIBUTION",
            "unit": "s",
            "labels": [{"key": "task", "valueType": "STRING"}],
        },
    }


def test_every_signal_is_a_metric_and_values_are_taken_exactly_by_distributions(deploy):
    metrics = deploy().of_type(METRIC)
    assert set(metrics) == {f"observability-{signal.name}" for signal in signals.ALL}
    for metric in metrics.values():
        assert ("valueExtractor" in metric) == (metric["metricDescriptor"]["valueType"] == "DISTRIBUTION")


def test_an_alert_on_time_whole(deploy):
    alert = alerts_of(parse({}, project=PROJECT, region=REGION))[0]
    assert deploy().of_type(POLICY)["observability-no-durable-progress"] == {
        "project": PROJECT,
        "displayName": "GPU job gpu-resilient-job: no durable step for 60 minutes",
        "combiner": "OR",
        "severity": "ERROR",
        "conditions": [
            {
                "displayName": "no durable step for 60 minutes",
                "conditionPrometheusQueryLanguage": {
                    "query": alert.query,
                    "duration": "3000s",
                    "evaluationInterval": "60s",
                    "disableMetricValidation": True,
                },
            }
        ],
        "alertStrategy": {"autoClose": "1800s"},
        "documentation": {
            "content": documentation("no-durable-progress", JOB, REGION, PROJECT),
            "mimeType": "text/markdown",
        },
        "notificationChannels": [],
        "userLabels": LABELS,
    }


def test_an_alert_on_a_line_whole(deploy):
    policy = deploy(notificationEmails='["oncall@example.com"]').of_type(POLICY)["observability-retries-nearly-spent"]
    assert policy == {
        "project": PROJECT,
        "displayName": "GPU job gpu-resilient-job: retries left: 1",
        "combiner": "OR",
        "severity": "WARNING",
        "conditions": [
            {
                "displayName": "retries left: 1",
                "conditionMatchedLog": {
                    "filter": f'{OF_THE_JOB} AND labels."run.googleapis.com/task_attempt"=("2" OR "3")'
                },
            }
        ],
        "alertStrategy": {"autoClose": "1800s", "notificationRateLimit": {"period": "3600s"}},
        "documentation": {
            "content": documentation("retries-nearly-spent", JOB, REGION, PROJECT),
            "mimeType": "text/markdown",
        },
        "notificationChannels": ["projects/demo-project/notificationChannels/oncall@example.com"],
        "userLabels": LABELS,
    }


def test_an_alert_without_waiting_sends_no_duration_of_zero(deploy):
    condition = deploy().of_type(POLICY)["observability-execution-failed"]["conditions"][0]
    assert "duration" not in condition["conditionPrometheusQueryLanguage"]


def test_a_channel_whole(deploy):
    channels = deploy(notificationEmails='["oncall@example.com"]').of_type(CHANNEL)
    assert channels == {
        "observability-email-oncall@example.com": {
            "project": PROJECT,
            "type": "email",
            "displayName": "GPU job gpu-resilient-job: oncall@example.com",
            "labels": {"email_address": "oncall@example.com"},
            "userLabels": LABELS,
        }
    }


def test_the_dashboard_whole(deploy):
    inputs = deploy().only(DASHBOARD)
    assert json.loads(inputs.pop("dashboardJson")) == dashboard(PROJECT, JOB, REGION)
    assert inputs == {"project": PROJECT}


@pytest.mark.parametrize("kind", [METRIC, CHANNEL, POLICY, DASHBOARD])
def test_a_stack_that_wants_none_has_none(deploy, kind):
    registered = deploy(observability="false", notificationEmails='["a@b.c"]')
    assert registered.of_type(kind) == {}
    services = registered.of_type("gcp:projects/service:Service")
    assert {"services-logging", "services-monitoring"}.isdisjoint(services)
