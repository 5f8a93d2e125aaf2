"""This repository's own program satisfies every policy, on each of its stacks, in the preview and as deployed."""

import json
import os
from pathlib import Path

import pytest
import yaml

from localcloud.testing import running_cloud
from localcloud.toolchain.environment import local_environment
from tests.policies.engine import Engine, violations_in
from tests.policies.pack import PACK

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TREE = PACK.parent


@pytest.mark.parametrize("stack", ["local", "dev", "prod"])
def test_a_stack_is_deployed_under_the_pack_and_its_state_passes_too(stack, tmp_path):
    with running_cloud(tmp_path / "cloud") as cloud:
        engine = Engine(TREE, {**os.environ, **local_environment(TREE, cloud.port, home=tmp_path)})
        config = tmp_path / f"Pulumi.{stack}.yaml"
        config.write_text(yaml.safe_dump({"config": rehearsed(stack, cloud.port)}))
        on_stack = ("--stack", stack, "--config-file", str(config))
        init_beside(engine, stack, tmp_path / "init")

        assert engine.violations("preview", *on_stack, expect=0) == []
        assert engine.violations("up", "--yes", "--skip-preview", *on_stack, expect=0) == []

        state = tmp_path / "state.json"
        engine.pulumi("stack", "export", "--stack", stack, "--file", str(state))
        types = {resource["type"] for resource in json.loads(state.read_text())["deployment"]["resources"]}
        assert {"gcp:cloudrunv2/job:Job", "gcp:storage/bucket:Bucket"} <= types
        report = engine.pulumi("policy", "analyze", "--json", "--policy-pack", str(PACK), "--file", str(state))
        assert violations_in(report) == []


def init_beside(engine: Engine, stack: str, folder: Path) -> None:
    """Make the stack from a copy of the project file: `stack init` writes a salt into the stack's file beside it."""
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text((TREE / "Pulumi.yaml").read_text())
    Engine(folder, engine.environment).pulumi("stack", "init", stack)


def rehearsed(stack: str, port: int) -> dict[str, object]:
    """The stack's own settings, with project and endpoints of the local cloud."""
    local = yaml.safe_load((TREE / "Pulumi.local.yaml").read_text())["config"]
    own = yaml.safe_load((TREE / f"Pulumi.{stack}.yaml").read_text())["config"]
    google = {key: value for key, value in local.items() if key.startswith("gcp:")}
    endpoints = {k: v.replace(":8790/", f":{port}/") for k, v in google.items() if k.endswith("CustomEndpoint")}
    return {**own, **google, **endpoints}
