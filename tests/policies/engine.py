"""A Pulumi project of a test's own, run by the real engine, and the policy violations that the engine reports."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcloud.toolchain.launchers import write_launchers
from localcloud.toolchain.pulumi_cli import find_pulumi
from tests.command import pulumi
from tests.policies.pack import PACK

PROVIDER = Path(__file__).with_name("anything_provider.py")
PROGRAM = """\
import json, pathlib, pulumi
for entry in json.loads(pathlib.Path("resources.json").read_text()):
    options = pulumi.ResourceOptions(protect=entry["protect"])
    pulumi.CustomResource(entry["type"], entry["name"], entry["props"], options)
"""
VIOLATION_EXIT = 1


@dataclass(frozen=True)
class Violation:
    """One violation as the engine reports it."""

    policy: str
    resource: str
    level: str
    message: str


@dataclass(frozen=True)
class Engine:
    """The CLI in one folder with one environment."""

    folder: Path
    environment: Mapping[str, str]

    def pulumi(self, *arguments: str, expect: int = 0) -> str:
        """Run one command to its end; return both outputs."""
        environment = {**self.environment, "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true"}
        return pulumi(*arguments, cwd=self.folder, environment=environment, expect=expect)

    def violations(self, *arguments: str, expect: int = VIOLATION_EXIT) -> list[Violation]:
        """Run a command with the pack; return what the engine reports."""
        return violations_in(self.pulumi(*arguments, "--json", "--policy-pack", str(PACK), expect=expect))


class Project(Engine):
    """A project of its own; `resources.json` says what its program declares. No cloud stands behind it."""

    def __init__(self, folder: Path) -> None:
        cli = find_pulumi()
        assert cli, "no Pulumi CLI: `make setup` installs it"
        for name in ("bin", "state"):
            (folder / name).mkdir()
        write_launchers(folder / "bin")
        provider = folder / "bin" / "pulumi-resource-gcp"
        provider.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(PROVIDER))} "$@"\n')
        (folder / "Pulumi.yaml").write_text("name: examples\nruntime: python\n")
        (folder / "__main__.py").write_text(PROGRAM)
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(folder / "bin"), str(cli.parent), os.environ["PATH"]]),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "examples",
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }
        super().__init__(folder, environment)

    def declare(self, resources: list[dict[str, Any]]) -> None:
        (self.folder / "resources.json").write_text(json.dumps(resources))


def violations_in(events: str) -> list[Violation]:
    """Policy violations among the engine's events, one JSON object a line."""
    found = [json.loads(line).get("policyEvent") for line in events.splitlines() if line.startswith("{")]
    return [
        Violation(
            policy=event["policyName"],
            resource=event.get("resourceUrn", "").split("::")[-1],
            level=event["enforcementLevel"],
            message=event["message"],
        )
        for event in found
        if event
    ]
