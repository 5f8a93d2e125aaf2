"""A bootstrap that cannot work is refused before anything exists, with every reason and the command that fixes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bootstrap.settings import KEYS, NAMESPACE, parse
from infra.problems import SettingsError

RIGHT = {"repository": "acme/gpujob", "repositoryId": "123456789"}
PLACE = {"project": "demo-project", "region": "europe-west4"}


def test_with_the_two_that_are_needed_everything_is_in_one_project() -> None:
    settings = parse(RIGHT, **PLACE)
    assert settings.environments == {"dev": "demo-project", "prod": "demo-project", "pull-request": "demo-project"}
    assert settings.projects == ("demo-project",)
    assert settings.state_bucket == "gpujob-state-demo-project"


def test_pull_requests_go_where_dev_is_and_never_where_prod_is() -> None:
    settings = parse({**RIGHT, "devProject": "acme-dev", "prodProject": "acme-prod"}, **PLACE)
    assert settings.environments == {"dev": "acme-dev", "prod": "acme-prod", "pull-request": "acme-dev"}


def test_there_is_a_warning_where_a_branch_could_reach_production_or_the_state() -> None:
    apart = {"devProject": "acme-dev", "prodProject": "acme-prod"}
    assert parse({**RIGHT, **apart}, **PLACE).warnings == ()
    (together,) = parse(RIGHT, **PLACE).warnings
    assert "dev and prod are both in demo-project" in together
    (with_state,) = parse({**RIGHT, "prodProject": "acme-prod"}, **PLACE).warnings
    assert "The state of every stack is in dev's project demo-project" in with_state
    assert all("gpujob-bootstrap:devProject" in warning for warning in (together, with_state))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"repository": ""}, "repository"),
        ({"repository": "gpujob"}, "repository"),
        ({"repository": "acme/gpujob/x"}, "repository"),
        # What would end the quotes of the condition that it is put into.
        ({"repository": "acme/x' || true || '"}, "repository"),
        ({"repositoryId": ""}, "repositoryId"),
        ({"repositoryId": "0"}, "repositoryId"),
        ({"repositoryId": "1' || '1"}, "repositoryId"),
        ({"devProject": "Acme"}, "devProject"),
        ({"prodProject": "a"}, "prodProject"),
        ({"stateBucketName": "my-google-state"}, "stateBucketName"),
        ({"stateBucketName": "ab"}, "stateBucketName"),
        ({"repo": "acme/gpujob"}, "repo"),
    ],
)
def test_what_cannot_work_is_refused(change: dict[str, str], key: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse({**RIGHT, **change}, **PLACE)
    assert [problem.key for problem in refused.value.problems] == [f"{NAMESPACE}:{key}"]
    assert all(problem.allowed and problem.paste.startswith("pulumi config ") for problem in refused.value.problems)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        parse({}, project="", region="")
    assert [problem.key for problem in refused.value.problems] == [
        "gcp:project",
        "gcp:region",
        f"{NAMESPACE}:repository",
        f"{NAMESPACE}:repositoryId",
    ]


def test_the_project_file_declares_these_keys() -> None:
    declared = yaml.safe_load((Path(__file__).parents[2] / "bootstrap" / "Pulumi.yaml").read_text())["config"]
    assert set(declared) == {f"{NAMESPACE}:{name}" for name in KEYS}
    assert all("default" in one and one["description"] for one in declared.values())
