"""The workflows' own scripts, word for word, on a local cloud: drift is found, a stack comes and goes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from bootstrap.roles import own_state
from localcloud.testing import Cloud, running_cloud
from localcloud.toolchain.environment import local_environment
from tests.docs.test_readme_by_hand import copy_of_the_tree
from tests.workflows.test_workflows import TREE, workflow

BUCKET = "projects/_/buckets/state"
pytestmark = [pytest.mark.engine, pytest.mark.slow]


@dataclass(frozen=True)
class Runner:
    """A checkout in which jobs' steps run, as on GitHub's machine once it has signed in."""

    cloud: Cloud
    tree: Path
    environment: dict[str, str]

    def command(self, *words: str, expect: int = 0, **more: str) -> str:
        done = subprocess.run(
            words,
            cwd=self.tree,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == expect, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def pulumi(self, *words: str) -> str:
        return self.command("pulumi", *words, "--non-interactive", "--color", "never")

    def step(self, name: str, job: str, title: str, *, expect: int = 0, **given: str) -> str:
        """Run the script of one step; `given` are the values of its `env`."""
        (step,) = [one for one in workflow(name).jobs[job]["steps"] if one.get("name") == title]
        return self.command("bash", "-e", "-c", step["run"], expect=expect, **given)

    def stands_in(self, program: str, script: str) -> None:
        """Put a program on PATH that this machine lacks."""
        path = Path(self.environment["PATH"].split(os.pathsep)[0]) / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def inventory(self) -> list[str]:
        return requests.get(f"{self.cloud.url}/_localcloud/inventory", timeout=30).json()["resources"]

    @property
    def backend(self) -> Path:
        return Path(self.environment["PULUMI_BACKEND_URL"].removeprefix("file://"))

    def state(self) -> dict[str, tuple[int, bytes]]:
        """Every file and folder of the backend, with its time and content."""
        return {
            str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in sorted(self.backend.rglob("*"))
        }


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """The stack dev is deployed, with the local stack's settings."""
    folder = tmp_path_factory.mktemp("runner")
    tree, bin_dir = folder / "tree", folder / "bin"
    bin_dir.mkdir()
    with running_cloud(folder / "cloud") as cloud:
        tree.mkdir()
        copy_of_the_tree(tree, cloud.port)
        (tree / "policies" / ".venv").symlink_to(TREE / "policies" / ".venv")
        local = yaml.safe_load((tree / "Pulumi.local.yaml").read_text())
        (tree / "Pulumi.dev.yaml").write_text(yaml.safe_dump(local))
        (tree / "Pulumi.prod.yaml").write_text(
            yaml.safe_dump({"config": {**local["config"], "gpujob:nameSuffix": "p"}})
        )
        environment = {**os.environ, **local_environment(TREE, cloud.port, home=folder)}
        environment["PATH"] = os.pathsep.join([str(bin_dir), environment["PATH"]])
        runner = Runner(cloud, tree, environment)
        runner.pulumi("stack", "init", "dev")
        runner.pulumi("up", "--stack", "dev", "--yes", "--skip-preview")
        yield runner


def compare(runner: Runner, *, expect: int) -> str:
    return runner.step("drift", "drift", "Compare", expect=expect, STACK="dev")


def job(runner: Runner) -> str:
    return (
        f"{runner.cloud.url}/run/v2/{json.loads(runner.pulumi('stack', 'output', '--json', '--stack', 'dev'))['jobId']}"
    )


def test_without_drift_the_nightly_comparison_succeeds_also_after_a_run(runner: Runner) -> None:
    compare(runner, expect=0)
    requests.post(f"{job(runner)}:run", json={}, timeout=30).raise_for_status()
    compare(runner, expect=0)


def test_drift_ends_it_with_7_and_says_so(runner: Runner) -> None:
    document = requests.get(job(runner), timeout=30).json()
    document["template"]["template"]["maxRetries"] = 9
    requests.patch(job(runner), json=document, timeout=30).raise_for_status()
    said = compare(runner, expect=7)
    assert "::error title=Drift in dev::" in said
    assert "maxRetries: 3 => 9" in said
    runner.pulumi("up", "--stack", "dev", "--yes", "--skip-preview", "--refresh")
    compare(runner, expect=0)


def test_what_cannot_be_compared_is_not_called_drift(runner: Runner) -> None:
    said = runner.step("drift", "drift", "Compare", expect=6, STACK="nowhere")
    assert "::error title=nowhere was not compared::" in said


def test_previews_and_comparisons_write_nothing_to_the_backend(runner: Runner) -> None:
    """Which is why their account may only read it."""
    before = runner.state()
    runner.pulumi("preview", "--stack", "dev", "--policy-pack", "policies")
    compare(runner, expect=0)
    assert runner.state() == before


def test_prod_takes_the_image_of_dev(runner: Runner) -> None:
    runner.step("deploy", "prod", "Take the image that dev runs")
    runner.pulumi("stack", "init", "prod")
    image = yaml.safe_load((runner.tree / "Pulumi.prod.yaml").read_text())["config"]["gpujob:image"]
    assert image == runner.pulumi("stack", "output", "image", "--stack", "dev").strip()
    runner.pulumi("preview", "--stack", "prod")

    noted = runner.tree / "noted"
    runner.step("deploy", "dev", "Note what dev runs now", GITHUB_OUTPUT=str(noted))
    digest = noted.read_text().removeprefix("digest=").strip()
    noted.unlink()
    refuse = "Refuse an image that came to dev after this run"
    runner.step("deploy", "prod", refuse, DIGEST=digest)
    for other in ("", "sha256:" + "0" * 64):
        said = runner.step("deploy", "prod", refuse, expect=1, DIGEST=other)
        assert "::error title=dev has moved on::" in said


def test_the_image_that_prod_runs_is_kept_in_devs_repository(runner: Runner) -> None:
    runner.stands_in("gcloud", 'echo "gcloud $*"')
    script: dict[str, Any]
    (script,) = [one for one in workflow("deploy").jobs["prod"]["steps"] if one.get("id") == "image"]
    noted = runner.tree / "noted"
    # In this cloud only dev is deployed.
    of_dev = script["run"].replace("--stack prod", "--stack dev")
    runner.command("bash", "-e", "-c", of_dev, GITHUB_OUTPUT=str(noted))
    image = noted.read_text().removeprefix("image=").strip()
    noted.unlink()
    assert image == runner.pulumi("stack", "output", "image", "--stack", "dev").strip()
    said = runner.step("deploy", "keep", "Keep the image that prod runs", IMAGE=image)
    assert said == f"gcloud artifacts docker tags add {image} {image.split('@')[0]}:promoted-prod\n"


def there(runner: Runner, stack: str) -> str:
    """What the last job of a pull request finds: whether it has a stack."""
    noted = runner.tree / "noted"
    look = "Look whether there is such a stack"
    runner.step("pull-request-stack", "down", look, STACK=stack, GITHUB_OUTPUT=str(noted))
    found = noted.read_text().removeprefix("there=").strip()
    noted.unlink()
    return found


def test_a_pull_requests_stack_comes_beside_dev_and_goes_without_a_trace(runner: Runner) -> None:
    before = runner.inventory()
    given = {"NUMBER": "12", "PROJECT": "", "SECRETS_PROVIDER": "passphrase"}
    assert there(runner, "pr-12") == "false"
    runner.step("pull-request-stack", "up", "Write the stack's file", **given)
    runner.pulumi("stack", "init", "pr-12")
    runner.pulumi("up", "--stack", "pr-12", "--yes", "--skip-preview", "--policy-pack", "policies")
    assert any(name.endswith("/jobs/gpu-resilient-job-pr-12") for name in runner.inventory())
    compare(runner, expect=0)
    # The next push, or the closing, begins on a machine that has no such file.
    (runner.tree / "Pulumi.pr-12.yaml").unlink()

    runner.stands_in("gh", "echo CLOSED")
    look = "Ask of each pull request's stack whether the pull request still wants it"
    said = runner.step("drift", "forgotten", look, expect=1)
    assert "pr-12 is still there, its pull request is CLOSED" in said
    runner.stands_in("gh", "echo OPEN")
    runner.step("drift", "forgotten", look)

    assert there(runner, "pr-12") == "true"
    runner.step("pull-request-stack", "down", "Write the stack's file", **given)
    lock = runner.backend / ".pulumi" / "locks" / "organization" / "gpujob" / "pr-12" / "of-a-killed-run.json"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text("{}")
    runner.step("pull-request-stack", "down", "Take off the lock of a run that was cut off", STACK="pr-12")
    assert not lock.exists()
    mine = {f"{BUCKET}/objects/{path.relative_to(runner.backend)}" for path in runner.backend.rglob("*pr-12*")}
    own = tuple(re.findall(r"'([^']+)'", own_state("state", "pr-*").expression))
    assert mine
    assert all(f"{name}/".startswith(own) for name in mine), mine
    runner.pulumi("destroy", "--stack", "pr-12", "--yes", "--skip-preview")
    said = runner.step(
        "pull-request-stack", "down", "Look whether anything is left, then forget the stack", STACK="pr-12"
    )
    assert "Nothing of this stack is left" in said
    assert runner.inventory() == before
    assert "pr-12" not in runner.pulumi("stack", "ls")
