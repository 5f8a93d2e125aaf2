"""Small programs on the real engine, with this tree's language host and provider plugin, against a local cloud."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from localcloud.provider.settings import ENDPOINTS
from localcloud.testing import Cloud
from localcloud.toolchain.launchers import write_launchers
from localcloud.toolchain.pulumi_cli import find_pulumi

PROJECT, REGION = "demo", "europe-west4"


class Engine:
    """One stack in a folder of its own, driven by literal `pulumi` commands."""

    def __init__(self, folder: Path, program: str, url: str, **configuration: str) -> None:
        self.folder = folder
        self.url = url
        (folder / "program").mkdir(parents=True)
        (folder / "state").mkdir()
        (folder / "program" / "__main__.py").write_text(program)
        (folder / "program" / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
        endpoints = {f"gcp:{key}": f"{url}/{path}" for key, path in ENDPOINTS.items()}
        settings = {
            "gcp:project": PROJECT,
            "gcp:region": REGION,
            "gcp:accessToken": "any",
            **endpoints,
            **configuration,
        }
        self.configuration = folder / "program" / "Pulumi.dev.yaml"
        self.configuration.write_text(json.dumps({"config": settings}))
        write_launchers(folder / "bin")
        pulumi = find_pulumi()
        assert pulumi is not None, "no Pulumi CLI: run `make setup`"
        self._pulumi = str(pulumi)
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", "")]),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }
        self.run("stack", "init", "dev")

    def run(self, *arguments: str, expect: int | None = 0, **variables: str) -> str:
        """One command to its end; both its outputs. `variables` are what the program reads from its environment."""
        done = self._command(arguments, variables)
        output = done.stdout + done.stderr
        assert expect is None or done.returncode == expect, output
        return output

    def up(self, *arguments: str, **variables: str) -> str:
        return self.run("up", "--yes", "--skip-preview", *arguments, **variables)

    def destroy(self, *arguments: str, expect: int | None = 0) -> str:
        return self.run("destroy", "--yes", "--skip-preview", *arguments, expect=expect)

    def outputs(self) -> dict[str, Any]:
        return json.loads(self._command(("stack", "output", "--json"), {}).stdout)

    def steps(self, **variables: str) -> list[tuple[str, str]]:
        """(operation, name) of what a preview would do, without what stays the same."""
        done = self._command(("preview", "--json"), variables)
        assert done.returncode == 0, done.stdout + done.stderr
        steps = json.loads(done.stdout)["steps"]
        return [(step["op"], step["urn"].rsplit("::", 1)[-1]) for step in steps if step["op"] not in {"same", "read"}]

    @contextmanager
    def configured(self, **changes: str | None) -> Iterator[None]:
        """Other configuration values for the time of a `with`; None takes a key away."""
        before = self.configuration.read_text()
        document = yaml.safe_load(before)
        for key, value in changes.items():
            document["config"].pop(f"gcp:{key}", None)
            if value is not None:
                document["config"][f"gcp:{key}"] = value
        self.configuration.write_text(json.dumps(document))
        try:
            yield
        finally:
            self.configuration.write_text(before)

    def _command(self, arguments: Sequence[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._pulumi, *arguments, "--non-interactive", "--color", "never"],
            cwd=self.folder / "program",
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


def ask(cloud: Cloud, method: str, path: str, body: Any = None) -> httpx.Response:
    """A request past Pulumi: what somebody else does to the project."""
    return httpx.request(method, cloud.url + path, json=body, trust_env=False, timeout=30)
