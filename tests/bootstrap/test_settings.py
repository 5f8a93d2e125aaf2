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
    assert settings.pool_id == "github"


def test_pull_requests_go_where_dev_is_and_never_where_prod_is() -> None:
    settings = parse({**RIGHT, "devProject": "acme-dev", "prodProject": "acme-prod"}, **PLACE)
    assert settings.environments == {"dev": "acme-dev", "prod": "acme-prod", "pull-request": "acme-dev"}
    alone = parse({**RIGHT, "devProject": "acme-dev", "pullRequestProject": "acme-requests"}, **PLACE)
    assert alone.environments["pull-request"] == "acme-requests"


APART = {"devProject": "acme-dev", "prodProject": "acme-prod", "pullRequestProject": "acme-requests"}


def test_there_is_a_warning_where_what_nobody_approved_could_reach_production_or_the_state() -> None:
    assert parse({**RIGHT, **APART}, **PLACE).warnings == ()
    (together,) = parse({**RIGHT, **APART, "devProject": "acme-prod"}, **PLACE).warnings
    assert "dev and prod are both in acme-prod" in together
    (with_state,) = parse({**RIGHT, **APART, "devProject": "demo-project"}, **PLACE).warnings
    assert "The state of every stack is in dev's project demo-project" in with_state
    assert all("gpujob-bootstrap:devProject" in warning for warning in (together, with_state))


@pytest.mark.parametrize(
    ("project", "beside"),
    [("acme-dev", "with dev."), ("acme-prod", "with prod."), ("demo-project", "with the state of every stack.")],
)
def test_there_is_a_warning_where_a_pull_request_shares_a_project(project: str, beside: str) -> None:
    (warning,) = parse({**RIGHT, **APART, "pullRequestProject": project}, **PLACE).warnings
    assert f"Pull requests' stacks are in {project}, {beside}" in warning
    assert "gpujob-bootstrap:pullRequestProject" in warning


def test_all_in_one_project_says_everything_that_is_shared() -> None:
    requests, together = parse(RIGHT, **PLACE).warnings
    assert "with dev and prod and the state of every stack" in requests
    assert "dev and prod are both in demo-project" in together


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
        ({"pullRequestProject": "Acme"}, "pullRequestProject"),
        ({"poolId": "a"}, "poolId"),
        ({"poolId": "gcp-github"}, "poolId"),
        ({"poolId": "GitHub"}, "poolId"),
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
