"""The program under the real engine: what a person sees of a bad setting; a preview builds and rewrites nothing."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from localcloud.toolchain.environment import local_environment

ROOT = Path(__file__).parents[2]
NOWHERE = 9
"""A port on which nothing listens: a first preview must not need the cloud at all."""

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture
def pulumi(tmp_path):
    """`pulumi(*words, **keys)` in a fresh backend, with the local stack file plus these keys, on a port of nobody."""
    env = {**os.environ, **local_environment(ROOT, NOWHERE, home=tmp_path)}
    text = (ROOT / "Pulumi.local.yaml").read_text().replace(":8790/", f":{NOWHERE}/")

    def run(*words: str, **keys) -> subprocess.CompletedProcess[str]:
        content = yaml.safe_load(text)
        content["config"] |= {name.replace("_", ":", 1): value for name, value in keys.items()}
        config = tmp_path / "Pulumi.local.yaml"
        config.write_text(yaml.safe_dump(content))
        command = ["pulumi", *words, "--stack", "local", "--config-file", str(config), "--non-interactive"]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)

    subprocess.run(["pulumi", "stack", "init", "local"], cwd=ROOT, env=env, check=True, capture_output=True)
    return run


def test_bad_settings_are_all_named_without_a_traceback(pulumi):
    result = pulumi("preview", gpujob_timeout="12h", gpujob_maxRetries=0, gpujob_gpuTyp="x")
    assert result.returncode != 0
    assert "3 settings of this stack cannot work; nothing was created or changed." in result.stdout
    for words in ("gpujob:timeout: 43200s", "gpujob:maxRetries: 3", "did you mean gpujob:gpuType?"):
        assert words in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


def test_a_stack_that_could_cost_too_much_is_stopped_with_key_and_numbers(pulumi):
    result = pulumi("preview", gpujob_maxExposureUsd="0.5")
    assert result.returncode != 0
    assert "gpujob:maxExposureUsd: one execution can cost 0.70 USD at worst" in result.stdout
    assert "more than the 0.5 USD that this stack allows" in result.stdout
    assert "gpu-job" not in result.stdout.partition("Diagnostics:")[0]


def test_a_value_of_the_wrong_type_is_refused_by_the_engine_itself_with_its_key(pulumi):
    result = pulumi("preview", gpujob_maxRetries="three")
    assert "'gpujob:maxRetries' must be of type 'integer'" in result.stdout + result.stderr


def test_a_preview_builds_nothing_calls_nobody_and_rewrites_no_file(pulumi):
    tracked = [*ROOT.glob("Pulumi*.yaml")]
    before = {path: path.read_bytes() for path in tracked}
    result = pulumi("preview")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "42 to create" in result.stdout
    assert "[unknown]" in result.stdout  # the image's digest
    assert "One execution can cost 0.667 GPU hours, 0.70 USD at worst" in result.stdout
    assert {path: path.read_bytes() for path in tracked} == before
