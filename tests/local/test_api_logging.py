"""The filter language: what it matches, and that whatever it does not know is refused by name."""

from typing import Any

import pytest

from localcloud.logs.comparisons import FilterError
from localcloud.logs.filter import compile_filter

ENTRY: dict[str, Any] = {
    "timestamp": "2026-11-30T10:00:00.500000Z",
    "severity": "WARNING",
    "logName": "projects/p/logs/run.googleapis.com%2Fstdout",
    "jsonPayload": {"message": "Resuming from checkpointed step 120.", "step": 120, "ok": True, "tags": ["a", "b"]},
    "resource": {"type": "cloud_run_job", "labels": {"job_name": "trainer"}},
    "labels": {"run.googleapis.com/execution_name": "trainer-abcde", "run.googleapis.com/task_index": "0"},
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        'resource.type="cloud_run_job"',
        "resource.type = cloud_run_job AND resource.labels.job_name = trainer",
        'resource.type="cloud_run_job" resource.labels.job_name="trainer"',
        'labels."run.googleapis.com/execution_name"="trainer-abcde"',
        'labels."run.googleapis.com/task_index"=0',
        "severity>=WARNING",
        "severity=warning",
        "severity<ERROR AND severity!=INFO",
        'timestamp>="2026-11-30T10:00:00.5Z" AND timestamp<"2026-11-30T10:00:01Z"',
        'timestamp>"2026-11-30T11:00:00+02:00"',
        "timestamp>=2026-11-30T10:00:00Z",
        'jsonPayload.message:"resuming FROM"',
        'jsonPayload.message =~ "step [0-9]+"',
        "jsonPayload.step>=100",
        "jsonPayload.step=120.0",
        "jsonPayload.ok=true",
        'jsonPayload.tags="b"',
        "jsonPayload.step:*",
        "NOT jsonPayload.loss:*",
        "-textPayload:anything",
        'textPayload!="x"',
        "severity=(ERROR OR WARNING)",
        "severity=ERROR OR (severity=WARNING AND jsonPayload.step=120)",
        "severity>=ERROR OR severity=WARNING jsonPayload.step=120",
        'logName:"stdout" -- a comment',
    ],
)
def test_a_filter_matches(text: str) -> None:
    assert compile_filter(text).matches(ENTRY)


@pytest.mark.parametrize(
    "text",
    [
        'resource.type="build"',
        "severity>=ERROR",
        'timestamp>"2026-11-30T10:00:00.500Z"',
        'textPayload:"anything"',
        'jsonPayload.message !~ "step"',
        "jsonPayload.step<120",
        "NOT severity=WARNING",
        "severity=(ERROR OR INFO)",
        "severity=ERROR OR jsonPayload.step=1",
    ],
)
def test_a_filter_does_not_match(text: str) -> None:
    assert not compile_filter(text).matches(ENTRY)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preempted", "text without a field, 'preempted'"),
        ('"some text"', "text without a field"),
        ('SEARCH("x")', "the function SEARCH()"),
        ("sample(insertId, 0.1)", "the function sample()"),
        ("severity>=LOUD", "'LOUD' is no severity"),
        ('timestamp>="yesterday"', "'yesterday' is no RFC 3339 time"),
        ('textPayload=~"("', "is no regular expression"),
        ("(severity=INFO", "parenthesis is not closed"),
        ("severity=", "ends too early"),
        ("severity=(INFO AND ERROR OR DEBUG)", "AND beside OR"),
        ("a=1)", "unexpected )"),
    ],
)
def test_what_a_filter_may_not_say_is_named(text: str, message: str) -> None:
    with pytest.raises(FilterError, match="filter") as refusal:
        compile_filter(text)
    assert message in str(refusal.value)


def test_only_bounds_that_must_hold_narrow_the_reading() -> None:
    assert compile_filter('severity=INFO timestamp>="2026-01-01T00:00:00Z"').since == "2026-01-01T00:00:00.000000Z"
    assert compile_filter('severity=INFO OR timestamp>="2026-01-01T00:00:00Z"').since == ""
    assert compile_filter('timestamp>="2026-01-01T00:00:00Z" OR severity=INFO').since == ""
    assert compile_filter('NOT timestamp>="2026-01-01T00:00:00Z"').since == ""


def _write(call: Any, *texts: str, project: str = "local-project") -> None:
    entries = [{"textPayload": text, "timestamp": f"2026-11-30T10:00:0{text}Z"} for text in texts]
    call.ok("POST", "/v2/entries:write", {"logName": f"projects/{project}/logs/test", "entries": entries})


def _read(call: Any, **body: Any) -> dict[str, Any]:
    return call.ok("POST", "/logging/v2/entries:list", {"resourceNames": ["projects/local-project"], **body})


def test_entries_come_in_the_order_of_their_time_and_in_pages(call: Any) -> None:
    _write(call, "3", "1", "2")
    _write(call, "1", project="other-project")
    first = _read(call, pageSize=2)
    assert [each["textPayload"] for each in first["entries"]] == ["1", "2"]
    second = _read(call, pageSize=2, pageToken=first["nextPageToken"])
    assert [each["textPayload"] for each in second["entries"]] == ["3"]
    assert "nextPageToken" not in second
    backwards = _read(call, orderBy="timestamp desc", filter='timestamp<="2026-11-30T10:00:02Z"')
    assert [each["textPayload"] for each in backwards["entries"]] == ["2", "1"]


def test_an_unsupported_question_is_400_and_names_what(call: Any) -> None:
    body = {"resourceNames": ["projects/local-project"]}
    refused = call("POST", "/logging/v2/entries:list", {**body, "filter": "preempted"})
    assert refused.status_code == 400
    assert "text without a field" in refused.json()["error"]["message"]
    assert call("POST", "/logging/v2/entries:list", {**body, "orderBy": "severity"}).status_code == 400
    assert call("POST", "/logging/v2/entries:list", {"resourceNames": ["folders/1"]}).status_code == 400
