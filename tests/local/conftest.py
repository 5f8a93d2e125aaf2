"""A running local cloud for each test, a small HTTP client for it, and jobs made of a few lines of Python."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from localcloud.testing import Cloud, running_cloud

PROJECT, REGION = "local-project", "europe-west4"
PARENT = f"/v2/projects/{PROJECT}/locations/{REGION}"
DEADLINE_S = 60


@pytest.fixture(scope="session")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """One server for a worker's tests; its grace is short enough for tests that let it pass."""
    with running_cloud(tmp_path_factory.mktemp("cloud") / "state", grace_s=2) as running:
        yield running


@pytest.fixture
def cloud(_server: Cloud) -> Cloud:
    """A local cloud on a free port in which nothing exists."""
    _server.ask("POST", "reset")
    return _server


@dataclass(frozen=True)
class Caller:
    """Requests to one cloud."""

    client: httpx.Client

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """One request, its answer whatever the status."""
        return self.client.request(method, path, **({"json": body} if body is not None else {}), **more)

    def ok(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """One request that must succeed; its JSON."""
        answer = self(method, path, body, **more)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else {}


@pytest.fixture
def call(cloud: Cloud) -> Iterator[Caller]:
    """`call(method, path, body)` against `cloud`."""
    with _calling(cloud) as caller:
        yield caller


@contextmanager
def _calling(cloud: Cloud) -> Iterator["Caller"]:
    with httpx.Client(base_url=cloud.url, timeout=60, trust_env=False) as client:
        yield Caller(client)


def until(question: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """The first true answer; fails with `what` when the deadline passes."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        answer = question()
        if answer:
            return answer
        time.sleep(0.03)
    raise AssertionError(f"within {deadline_s} s: {what}")


@dataclass(frozen=True)
class Jobs:
    """Makes jobs of a few lines of Python, runs them and looks at what became of them."""

    call: Caller

    def create(self, code: str, name: str = "job", **changes: Any) -> str:
        """A job that runs `python -c code`; `changes` go into the task template, `container` and `execution` into
        theirs."""
        container = {
            "image": "example.com/any/image:1",
            "command": ["python", "-c", code],
            "resources": {"limits": {"cpu": "1", "memory": "512Mi"}},
            **changes.pop("container", {}),
        }
        execution = changes.pop("execution", {})
        template = {"containers": [container], "maxRetries": 0, "timeout": "60s", **changes}
        self.call.ok("POST", f"{PARENT}/jobs?jobId={name}", {"template": {**execution, "template": template}})
        return name

    def run(self, name: str = "job", overrides: Any = None) -> str:
        """Begin an execution; its full name."""
        operation = self.call.ok("POST", f"{PARENT}/jobs/{name}:run", {"overrides": overrides} if overrides else {})
        assert operation["metadata"]["@type"].endswith("google.cloud.run.v2.Execution")
        return operation["metadata"]["name"]

    def execution(self, execution: str) -> dict[str, Any]:
        """The execution's document."""
        return self.call.ok("GET", f"/v2/{execution}")

    def finished(self, execution: str) -> dict[str, Any]:
        """The execution's document when it has ended."""
        until(lambda: "completionTime" in self.execution(execution), f"{execution} ends")
        return self.execution(execution)

    def tasks(self, execution: str) -> list[dict[str, Any]]:
        """Its task documents."""
        return self.call.ok("GET", f"/v2/{execution}/tasks")["tasks"]

    def attempts(self, execution: str, task: int = 0) -> list[dict[str, Any]]:
        """Its attempts of one task, from the local cloud's own API."""
        return self.call.ok("GET", f"/_localcloud/executions/{execution.rsplit('/', 1)[-1]}")["tasks"][task]["attempts"]

    def entries(self, execution: str, more: str = "") -> list[dict[str, Any]]:
        """Its log entries, oldest first."""
        own = f'labels."run.googleapis.com/execution_name"="{execution.rsplit("/", 1)[-1]}" {more}'
        body = {"resourceNames": [f"projects/{PROJECT}"], "filter": own, "pageSize": 1000}
        return self.call.ok("POST", "/logging/v2/entries:list", body).get("entries", [])

    def lines(self, execution: str, more: str = "") -> list[str]:
        """The texts of its log entries."""
        found = self.entries(execution, more)
        return [each.get("textPayload") or each["jsonPayload"]["message"] for each in found]

    def said(self, execution: str, line: str) -> None:
        """Wait until the execution has logged this line."""
        until(lambda: line in self.lines(execution), f"{execution} logs {line!r}")


@pytest.fixture
def jobs(call: Caller) -> Jobs:
    """Jobs on `cloud`."""
    return Jobs(call)


@contextmanager
def _jobs_on(cloud: Cloud) -> Iterator[Jobs]:
    with _calling(cloud) as caller:
        yield Jobs(caller)


@pytest.fixture(scope="session")
def jobs_on() -> Callable[[Cloud], AbstractContextManager[Jobs]]:
    """`jobs_on(cloud)`: jobs on a cloud that the test itself starts."""
    return _jobs_on
