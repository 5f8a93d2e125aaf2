"""The engine's side of the rehearsal: literal `pulumi` commands on a stack of its own, and what their events say."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from localcloud.toolchain.google_provider import provider_in_use
from ops.rehearsal.commands import console, run

_STACK = "local"
_UNCHANGED = {"same", "read", "refresh"}


class RehearsalStack:
    """The stack `local` in a backend under `work`, configured for the local cloud at `port`."""

    def __init__(
        self,
        tree: Path,
        port: int,
        work: Path,
        environment: Mapping[str, str],
        *,
        workload: Sequence[str],
        worker_environment: Mapping[str, str],
    ) -> None:
        self._tree = tree
        self._work = work
        # The flag --event-log, which the Automation API uses too, exists only under this variable.
        self._environment = {**os.environ, **environment, "PULUMI_DEBUG_COMMANDS": "true"}
        self._config = work / "Pulumi.local.yaml"
        self._events = 0
        self.provider = provider_in_use(tree / "build" / "bin")
        write_local_config(tree / "Pulumi.local.yaml", self._config, port, workload, worker_environment)
        self._pulumi("stack", "init", _STACK)

    def up(self) -> int:
        """Deploy; return how many resources were created, the stack itself not counted."""
        changes = self._changing("up", "--yes", "--skip-preview")
        console.print(f"  {changes.get('create', 0)} resources created, provider {self.provider}")
        return changes.get("create", 0)

    def up_refreshed(self) -> int:
        """Compare with the cloud and deploy again; return how many resources that changed (0 is right)."""
        changes = self._changing("up", "--yes", "--refresh", "--skip-preview")
        changed = sum(count for operation, count in changes.items() if operation not in _UNCHANGED)
        console.print(f"  {changed} changes")
        return changed

    def outputs(self) -> dict[str, Any]:
        """The stack's exports."""
        return json.loads(self._pulumi("stack", "output", "--json", "--stack", _STACK))

    def destroy(self) -> None:
        """Remove every resource."""
        changes = self._changing("destroy", "--yes", "--skip-preview")
        console.print(f"  {changes.get('delete', 0)} resources deleted")

    def _changing(self, *arguments: str) -> dict[str, int]:
        self._events += 1
        log = self._work / f"events-{self._events}.jsonl"
        config = self._config.relative_to(self._tree)
        self._pulumi(*arguments, "--stack", _STACK, "--config-file", str(config), hidden=["--event-log", str(log)])
        return resource_changes(log)

    def _pulumi(self, *arguments: str, hidden: Sequence[str] = ()) -> str:
        command = ["pulumi", *arguments, *hidden, "--non-interactive", "--color", "never"]
        shown = f"pulumi {' '.join(arguments)}"
        return run(command, cwd=self._tree, environment=self._environment, log=self._work / "pulumi.log", shown=shown)


def write_local_config(
    source: Path,
    target: Path,
    port: int,
    workload: Sequence[str] = (),
    worker_environment: Mapping[str, str] | None = None,
) -> None:
    """Copy the local stack's file with every loopback endpoint at `port`, so that no tracked file is touched."""
    document: dict[str, Any] = yaml.safe_load(source.read_text())
    config: dict[str, Any] = document["config"]
    for key, value in config.items():
        if key.endswith("CustomEndpoint"):
            scheme, _, rest = str(value).partition("://")
            config[key] = f"{scheme}://127.0.0.1:{port}/{rest.partition('/')[2]}"
    if workload:
        config["gpujob:workload"], config["gpujob:workloadArgs"] = workload[0], list(workload[1:])
    if worker_environment:
        config["gpujob:env"] = dict(worker_environment)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(yaml.safe_dump(document, sort_keys=False))


def resource_changes(event_log: Path) -> dict[str, int]:
    """Operation -> count, from the summary event of an update's event log."""
    summaries = [event["summaryEvent"] for event in _events(event_log) if "summaryEvent" in event]
    return dict(summaries[-1].get("resourceChanges") or {}) if summaries else {}


def _events(event_log: Path) -> Iterator[dict[str, Any]]:
    for line in event_log.read_text().splitlines():
        yield json.loads(line)
