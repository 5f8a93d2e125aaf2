"""The requests that Google's own provider made for a whole deployment are answered as it needs them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

RECORDING = Path(__file__).parent / "recorded" / "requests.jsonl"
_NUMBERED = re.compile(r"(?:dashboards|notificationChannels|alertPolicies)/\d+")


def test_the_recorded_sequence_is_answered_in_order(call: Callable[..., httpx.Response]) -> None:
    """Names that the server chooses and etags differ from run to run: they are followed, everything else is sent as
    recorded."""
    renamed: dict[str, str] = {}
    etags: dict[str, str] = {}
    answered = 0
    for line in RECORDING.read_text().splitlines():
        recorded = json.loads(line)
        path = _follow(recorded["path"], renamed)
        body = json.loads(_follow(json.dumps(recorded["body"]), renamed))
        _refresh_etag(body, etags.get(path.rsplit(":", 1)[0], etags.get(path, "")))
        answer = call(recorded["method"], f"{path}?{recorded['query']}&alt=json".replace("?&", "?"), body)
        assert answer.status_code == recorded["status"], f"{recorded['method']} {path}: {answer.text}"
        document = answer.json() if answer.content else {}
        if recorded["method"] == "POST" and _NUMBERED.search(document.get("name", "")):
            _learn_name(recorded["path"], document["name"], renamed)
        if "etag" in document:
            etags[path.rsplit(":", 1)[0]] = document["etag"]
        _check_shape(recorded["method"], path, body, document)
        answered += 1
    assert answered == 137
    left = call("GET", "/_localcloud/inventory").json()
    assert left["resources"] == []
    assert len(left["services"]) == 4


def _follow(text: str, renamed: dict[str, str]) -> str:
    return _NUMBERED.sub(lambda match: renamed.get(match[0], match[0]), text)


def _learn_name(path: str, name: str, renamed: dict[str, str]) -> None:
    """The recorded number of the resource that this POST made is the first one of its collection later in the
    recording."""
    collection = path.rsplit("/", 1)[-1]
    number = re.search(collection + r"/\d+", RECORDING.read_text())
    assert number is not None
    renamed[number[0]] = "/".join(name.split("/")[-2:])


def _refresh_etag(body: Any, etag: str) -> None:
    holder = body.get("policy", body) if isinstance(body, dict) else {}
    if "etag" in holder:
        holder["etag"] = etag


def _check_shape(method: str, path: str, body: Any, document: dict[str, Any]) -> None:
    """What the provider reads from the answer."""
    if path.endswith("/jobs") and "/run/" in path:
        assert document["done"] is True
        job = document["response"]
        sent = body["template"]["template"]
        shown = job["template"]["template"]
        for field in ("containers", "volumes", "timeout", "maxRetries", "nodeSelector", "serviceAccount"):
            assert shown[field] == sent[field], field
        assert job["terminalCondition"] == {**job["terminalCondition"], "type": "Ready", "state": "CONDITION_SUCCEEDED"}
        assert job["launchStage"] == "GA"
        assert job["latestCreatedExecution"] == {}
        assert job["generation"] == "1"
    elif path.endswith("/b") and method == "POST":
        assert document["location"] == "EUROPE-WEST4"
        assert document["softDeletePolicy"] == {"retentionDurationSeconds": "0"}
        assert document["labels"] == {"app": "gpujob"}
    elif method == "PATCH" and "/b/" in path:
        assert document["labels"] == {"b": "c"}
    elif "IamPolicy" in path or path.endswith("/iam"):
        assert document["etag"]
        if method != "GET" and "setIamPolicy" in path:
            assert document.get("bindings", []) == body["policy"].get("bindings", [])
    elif path.endswith("/services"):
        assert all(each["state"] == "ENABLED" for each in document.get("services", []))
    elif path.endswith(":enable"):
        assert document["done"] is True
    elif path.endswith("metrics/gpujob%2Fpreemptions") and method == "GET":
        assert document["name"] == "gpujob/preemptions"
