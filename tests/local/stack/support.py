"""This project's own program, deployed by the real engine into a local cloud of the test's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests
import yaml

from localcloud import TREE
from localcloud.testing import Cloud
from localcloud.toolchain.environment import local_environment
from ops.rehearsal.stack import resource_changes, write_local_config
from tests.command import pulumi

JOB_TYPE = "gcp:cloudrunv2/job:Job"


class LocalStack:
    """The stack `local` in a folder of its own, driven by literal `pulumi` commands."""

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self.cloud = cloud
        self.folder = folder
        self.config = folder / "Pulumi.local.yaml"
        self.environment = {
            **os.environ,
            **local_environment(TREE, cloud.port, home=folder),
            "PULUMI_DEBUG_COMMANDS": "true",
        }
        write_local_config(TREE / "Pulumi.local.yaml", self.config, cloud.port)
        self.pulumi("stack", "init", "local")

    def pulumi(self, *arguments: str, expect: int = 0) -> str:
        """Run one command to its end; return both outputs."""
        return pulumi(*arguments, cwd=TREE, environment=self.environment, expect=expect)

    def on_stack(self, *arguments: str, expect: int = 0) -> str:
        """A command that takes the stack and its configuration file."""
        return self.pulumi(*arguments, "--stack", "local", "--config-file", str(self.config), expect=expect)

    def changes(self, *arguments: str) -> dict[str, int]:
        """Operation -> count of a changing command."""
        log = self.folder / f"events-{time.monotonic_ns()}.jsonl"
        self.on_stack(*arguments, "--yes", "--skip-preview", "--event-log", str(log))
        return {operation: count for operation, count in resource_changes(log).items() if operation != "same"}

    def changed_urns(self, *arguments: str) -> list[tuple[str, str]]:
        """(operation, type) of each resource that a changing command changed.

        Providers are left out: their only change is that of the configuration which they are told.
        """
        log = self.folder / f"events-{time.monotonic_ns()}.jsonl"
        self.on_stack(*arguments, "--yes", "--skip-preview", "--event-log", str(log))
        events = [json.loads(line) for line in log.read_text().splitlines()]
        steps = [event["resOutputsEvent"]["metadata"] for event in events if "resOutputsEvent" in event]
        return [
            (step["op"], step["type"])
            for step in steps
            if step["op"] not in {"same", "read", "refresh"} and not step["type"].startswith("pulumi:providers:")
        ]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command in a process group of its own, to be interrupted."""
        return subprocess.Popen(
            ["pulumi", *arguments, "--stack", "local", "--config-file", str(self.config), "--non-interactive", "--yes"],
            cwd=TREE,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def set(self, key: str, value: Any) -> None:
        """Change one setting in the generated configuration file."""
        document = yaml.safe_load(self.config.read_text())
        document["config"][key] = value
        self.config.write_text(yaml.safe_dump(document, sort_keys=False))

    def output(self, name: str) -> Any:
        return json.loads(self.pulumi("stack", "output", "--json", "--stack", "local"))[name]

    def inventory(self) -> list[str]:
        """Everything that exists in the cloud."""
        return requests.get(f"{self.cloud.url}/_localcloud/inventory", timeout=30).json()["resources"]

    def job(self) -> requests.Response:
        return requests.get(f"{self.cloud.url}/run/v2/{self.output('jobId')}", timeout=30)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a command and everything it started, without notice."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Poll until `condition` holds.

    Raises:
        TimeoutError: it did not within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the condition did not come true")
        time.sleep(0.02)
