"""The bootstrap under the real engine with the policy pack, on a provider that calls no cloud."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.policies.engine import Engine, Project
from tests.policies.pack import TREE

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """The bootstrap's folder as a person finds it, in a copy, so that a stack's file is written there."""
    (tmp_path / "project").mkdir()
    environment = Project(tmp_path / "project").environment
    tree = tmp_path / "tree"
    shutil.copytree(TREE / "bootstrap", tree / "bootstrap")
    shutil.copytree(TREE / "infra", tree / "infra")
    return Engine(tree / "bootstrap", environment)


def test_a_wrong_setting_is_said_in_the_preview_without_a_traceback(engine: Engine) -> None:
    engine.pulumi("stack", "init", "home")
    said = engine.pulumi("preview", expect=1)
    assert "4 settings of this stack cannot work; nothing was created or changed." in said
    assert "gh api repos/OWNER/NAME --jq .id" in said
    assert "Traceback" not in said


def test_its_preview_has_nothing_against_the_policies(engine: Engine) -> None:
    engine.pulumi("stack", "init", "prod")
    settings = {
        "gcp:project": "demo-project",
        "gcp:region": "europe-west4",
        "gpujob-bootstrap:repository": "acme/gpujob",
        "gpujob-bootstrap:repositoryId": "123456789",
    }
    for key, value in settings.items():
        engine.pulumi("config", "set", key, value)
    assert engine.violations("preview", expect=0) == []
