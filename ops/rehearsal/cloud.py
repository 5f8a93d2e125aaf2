"""The local cloud's side of the rehearsal: start it, run the job, cause interruptions, look at what is left."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from localcloud.client import ask
from ops.cloud import Cloud, connect_to
from ops.rehearsal.attempts import Attempt, attempts_of
from ops.rehearsal.commands import RehearsalError, console, run
from ops.rehearsal.progress import Progress
from ops.stack import parse_outputs

_PATIENCE_S = 120.0
_POLL_S = 0.1
# The state changes once, the log all the time.
_LOOKS_A_STATE = 10


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
        # Relative, so that the line can be pasted in any checkout; commands run in the tree.
        state = self._state.relative_to(self._tree)
        self._gpujob("local", "start", "--port", self._port, "--state", str(state))
        try:
            yield
        finally:
            self._gpujob("local", "stop", "--port", self._port)

    def run(self, outputs: dict[str, Any]) -> None:
        """Start an execution of the deployed job, the one that all the rest is about."""
        self._outputs = outputs
        self._cloud: Cloud = connect_to(parse_outputs(outputs, "local"))
        self._gpujob("run", "--stack", "local")
        self._execution = self._cloud.runs.executions()[0].name
        self._progress = Progress(self._cloud.logs, self._execution)

    def wait_for_step(self, step: int) -> None:
        """Return as soon as the log shows `step` or a later one."""
        self._wait(f"step {step}", lambda: self._progress.step >= step)

    def wait_between_saves(self, step: int, save_every: int) -> None:
        """Return when `step` is past and a kill would cost some steps, with the next save not near."""

        def between() -> bool:
            unsaved = self._progress.step - self._progress.durable_step
            return self._progress.step >= step and 1 <= unsaved <= save_every - 4

        self._wait(f"step {step}, and steps that are not saved yet", between)

    def wait_until_done(self) -> None:
        """Return when the execution has ended, however it did."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self._ended():
            if time.monotonic() > deadline:
                raise RehearsalError(f"the execution did not end in {_PATIENCE_S:.0f} s.\n{self._progress.tail}")
            time.sleep(_POLL_S)
        self._progress.look()
        console.print("  the end")

    def preempt(self) -> None:
        """What weekly maintenance does: SIGTERM, ten seconds, SIGKILL, a retry."""
        self._interrupt("preempt")

    def kill(self) -> None:
        """SIGKILL without notice, as when the host fails."""
        self._interrupt("kill")

    def attempts(self) -> list[Attempt]:
        """What became of each attempt of task 0."""
        platform = ask(int(self._port), "GET", f"executions/{self._execution}")["tasks"][0]["attempts"]
        ledgers = self._documents("ledger/")
        resumed = {int(entry["platform_attempt"]): entry["resumed_from_step"] for entry in ledgers}
        return attempts_of(platform, self._progress.steps, resumed)

    def final_weights(self) -> str:
        """The hash of the finished run's weights, as it wrote it beside its checkpoints."""
        return str(self._documents("done.json")[0]["weights_sha256"])

    def inventory(self) -> list[str]:
        """Full names of everything that exists in the local cloud."""
        return list(ask(int(self._port), "GET", "inventory")["resources"])

    def _interrupt(self, how: str) -> None:
        # What `gpujob local preempt|kill` sends, without the second that a command takes to start.
        command = f"gpujob local {how} --port {self._port} --execution {self._execution}"
        console.print(f"[bold]$ {command}[/bold]", soft_wrap=True)
        ask(int(self._port), "POST", how, {"execution": self._execution, "task_index": 0})

    def _documents(self, name: str) -> list[dict[str, Any]]:
        """The JSON documents of task 0's checkpoint line whose names start with `name`."""
        bucket, _, line = self._outputs["checkpointUrl"].removeprefix("gs://").partition("/")
        client = storage.Client(
            project=self._outputs["project"],
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self._url},
        )
        return [json.loads(blob.download_as_bytes()) for blob in client.list_blobs(bucket, prefix=f"{line}/{name}")]

    def _wait(self, what: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        looks = 0
        self._progress.look()
        while not reached():
            if time.monotonic() > deadline:
                raise RehearsalError(
                    f"the execution did not reach {what} in {_PATIENCE_S:.0f} s.\n{self._progress.tail}"
                )
            if looks % _LOOKS_A_STATE == 0 and self._ended():
                raise RehearsalError(f"the execution ended before {what}.\n{self._progress.tail}")
            looks += 1
            time.sleep(_POLL_S)
            self._progress.look()
        console.print(f"  {what}")

    def _ended(self) -> bool:
        return self._cloud.runs.execution(self._execution).state.ended

    def _gpujob(self, *arguments: str) -> None:
        log = self._state.parent / "gpujob.log"
        run(["gpujob", *arguments], cwd=self._tree, environment=self._environment, log=log)
