"""The local cloud's side of the rehearsal: start it, run the job, cause interruptions, look at what is left."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from ops.cloud import Cloud, connect_to
from ops.rehearsal.attempts import Attempt, attempts_of
from ops.rehearsal.commands import RehearsalError, console, run
from ops.stack import parse_outputs

_PATIENCE_S = 120.0
_POLL_S = 0.1
_STEP = re.compile(r"\bstep (\d+)/\d+")
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class RehearsalCloud:
    """A local cloud at `port` with its state under `state`, spoken to as an operator would."""

    def __init__(self, tree: Path, port: int, state: Path, environment: Mapping[str, str]) -> None:
        self._tree = tree
        self._state = state
        self._url = f"http://127.0.0.1:{port}"
        self._port = str(port)
        self._environment = {**os.environ, **environment}

    @contextmanager
    def running(self) -> Generator[None]:
        """Start it, and stop it whatever the body does."""
        self._gpujob("local", "start", "--port", self._port, "--state", str(self._state))
        try:
            yield
        finally:
            self._gpujob("local", "stop", "--port", self._port)

    def run(self, outputs: dict[str, Any]) -> str:
        """Start an execution of the deployed job; return its name."""
        self._outputs = outputs
        self._cloud: Cloud = connect_to(parse_outputs(outputs, "local"))
        self._gpujob("run", "--stack", "local")
        return self._cloud.runs.executions()[0].name

    def wait_for_step(self, execution: str, step: int) -> None:
        """Return as soon as the execution's log shows `step` or a later one."""
        self._wait(execution, f"step {step}", lambda: max(self._last_steps(execution).values(), default=0) >= step)

    def wait_until_done(self, execution: str) -> None:
        """Return when the execution has ended, however it did."""
        self._wait(execution, "the end", lambda: self._cloud.runs.execution(execution).state.ended)

    def preempt(self, execution: str) -> None:
        """What weekly maintenance does: SIGTERM, ten seconds, SIGKILL, a retry."""
        self._gpujob("local", "preempt", "--port", self._port, "--execution", execution)

    def kill(self, execution: str) -> None:
        """SIGKILL without notice, as when the host fails."""
        self._gpujob("local", "kill", "--port", self._port, "--execution", execution)

    def attempts(self, execution: str) -> list[Attempt]:
        """What became of each attempt of task 0."""
        platform = self._ask(f"executions/{execution}")["tasks"][0]["attempts"]
        ledgers = self._documents("ledger/")
        resumed = {int(entry["platform_attempt"]): entry["resumed_from_step"] for entry in ledgers}
        return attempts_of(platform, self._last_steps(execution), resumed)

    def final_weights(self) -> str:
        """The hash of the finished run's weights, as it wrote it beside its checkpoints."""
        return str(self._documents("done.json")[0]["weights_sha256"])

    def inventory(self) -> list[str]:
        """Full names of everything that exists in the local cloud."""
        return list(self._ask("inventory")["resources"])

    def _documents(self, name: str) -> list[dict[str, Any]]:
        """The JSON documents of task 0's checkpoint line whose names start with `name`."""
        bucket, _, line = self._outputs["checkpointUrl"].removeprefix("gs://").partition("/")
        client = storage.Client(
            project=self._outputs["project"],
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self._url},
        )
        return [json.loads(blob.download_as_bytes()) for blob in client.list_blobs(bucket, prefix=f"{line}/{name}")]

    def _last_steps(self, execution: str) -> dict[int, int]:
        """Attempt -> the highest step in its log."""
        last: dict[int, int] = {}
        for line in self._cloud.logs.lines(execution, _LONG_AGO):
            found = _STEP.search(line.message)
            if found and line.attempt:
                attempt = int(line.attempt)
                last[attempt] = max(last.get(attempt, 0), int(found.group(1)))
        return last

    def _wait(self, execution: str, what: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not reached():
            if time.monotonic() > deadline:
                raise RehearsalError(
                    f"{execution} did not reach {what} within {_PATIENCE_S:.0f} s.\n{self._tail(execution)}"
                )
            if what != "the end" and self._cloud.runs.execution(execution).state.ended:
                raise RehearsalError(f"{execution} ended before {what}.\n{self._tail(execution)}")
            time.sleep(_POLL_S)
        console.print(f"  {execution} reached {what}")

    def _tail(self, execution: str) -> str:
        lines = [line.message for line in self._cloud.logs.lines(execution, _LONG_AGO)]
        return "\n".join(["The end of its log:", *lines[-20:]])

    def _ask(self, path: str) -> dict[str, Any]:
        answer = requests.get(f"{self._url}/_localcloud/{path}", timeout=30)
        answer.raise_for_status()
        return answer.json()

    def _gpujob(self, *arguments: str) -> None:
        log = self._state.parent / "gpujob.log"
        run(["gpujob", *arguments], cwd=self._tree, environment=self._environment, log=log)
