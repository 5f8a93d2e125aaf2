"""Inputs: what `check` fills in and refuses, and what `diff` makes of two sets of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from localcloud.provider.diffing import Change, Difference
from localcloud.provider.lifecycle import Subject, checked, diffed
from localcloud.provider.products import TYPES
from localcloud.provider.settings import Settings
from localcloud.provider.values import UNKNOWN

SETTINGS = Settings(project="demo", region="europe-west4")
JOB = "gcp:cloudrunv2/job:Job"
BUCKET = "gcp:storage/bucket:Bucket"
REPOSITORY = "gcp:artifactregistry/repository:Repository"
ACCOUNT = "gcp:serviceaccount/account:Account"
GRANT = "gcp:storage/bucketIAMMember:BucketIAMMember"


def subject(token: str) -> Subject:
    return Subject(TYPES[token], "it", nested=False, settings=SETTINGS)


def job(**changes: Any) -> dict[str, Any]:
    """Checked inputs of a job; `changes` are put into its task template."""
    container = {
        "image": "i@sha256:1",
        "envs": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "resources": {"limits": {"cpu": "4", "nvidia.com/gpu": "1"}},
    }
    task = {"containers": [container], "timeout": "600s", **changes}
    given = {"name": "j", "location": "europe-west4", "template": {"template": task}}
    inputs, failures = checked(subject(JOB), {}, given, b"")
    assert failures == []
    return inputs


def differ(token: str, old: dict[str, Any], new: dict[str, Any], state: dict[str, Any] | None = None) -> Any:
    return diffed(subject(token), old, new, state or old, [])


class TestCheck:
    def test_the_project_comes_from_the_configuration(self) -> None:
        inputs, _ = checked(subject(ACCOUNT), {}, {"accountId": "worker-sa"}, b"")
        assert inputs == {"project": "demo", "accountId": "worker-sa", "disabled": False}

    def test_a_repository_without_location_is_in_the_configured_region(self) -> None:
        inputs, failures = checked(subject(REPOSITORY), {}, {"repositoryId": "r", "format": "docker"}, b"")
        assert failures == []
        assert (inputs["location"], inputs["format"], inputs["mode"]) == (
            "europe-west4",
            "DOCKER",
            "STANDARD_REPOSITORY",
        )

    def test_a_bucket_has_its_location_in_upper_case_and_the_defaults_written_out(self) -> None:
        inputs, _ = checked(subject(BUCKET), {}, {"name": "bucket", "location": "europe-west4"}, b"")
        assert inputs == {
            "project": "demo",
            "name": "bucket",
            "location": "EUROPE-WEST4",
            "storageClass": "STANDARD",
            "forceDestroy": False,
        }

    def test_a_job_has_its_defaults_written_out_at_every_depth(self) -> None:
        inputs = job(volumes=[{"name": "scratch", "emptyDir": {}}])
        assert inputs["deletionProtection"] is True
        assert inputs["template"]["template"]["maxRetries"] == 3
        assert inputs["template"]["template"]["volumes"] == [{"name": "scratch", "emptyDir": {"medium": "MEMORY"}}]

    def test_a_name_left_out_is_made_from_the_resource_and_then_kept(self) -> None:
        first, _ = checked(subject(BUCKET), {}, {"location": "eu"}, b"seed")
        again, _ = checked(subject(BUCKET), first, {"location": "eu"}, b"another seed")
        assert first["name"].startswith("it-")
        assert again["name"] == first["name"]

    def test_unknown_values_of_a_preview_pass(self) -> None:
        given = {"bucket": UNKNOWN, "role": "roles/storage.objectUser", "member": UNKNOWN}
        assert checked(subject(GRANT), {}, given, b"") == (given, [])

    @pytest.mark.parametrize(
        ("token", "given", "path", "words"),
        [
            (BUCKET, {"location": "eu", "cors": []}, "cors", "will not leave it out silently"),
            (BUCKET, {"location": "eu", "forceDestory": True}, "forceDestory", "Did you mean `forceDestroy`?"),
            (BUCKET, {}, "location", "is required"),
            (BUCKET, {"location": 3}, "location", "must be a string, not a number"),
            (BUCKET, {"location": "eu", "labels": {"a": 1}}, "labels", "must be a map of strings"),
            (BUCKET, {"location": "eu", "name": "Upper"}, "name", "'Upper'"),
            (ACCOUNT, {"accountId": "short"}, "accountId", "6 to 30"),
            (
                ACCOUNT,
                {"accountId": "worker-sa", "deletionPolicy": "KEEP"},
                "deletionPolicy",
                "DELETE, ABANDON, PREVENT",
            ),
            (GRANT, {"bucket": "b", "role": "r", "member": "me@x.y"}, "member", "serviceAccount:"),
            (
                JOB,
                {"location": "x", "template": {"template": {"containers": [{"image": "i", "livenessProbe": {}}]}}},
                "template.template.containers[0].livenessProbe",
                "is not a property this plugin can make",
            ),
            (
                JOB,
                {
                    "location": "x",
                    "template": {"template": {"containers": [{"image": "i", "envs": [{"name": "A"}, {"name": "A"}]}]}},
                },
                "template.template.containers[0].envs[1].name",
                "'A' is given twice",
            ),
        ],
    )
    def test_what_is_wrong_is_named_with_its_path(self, token: str, given: Any, path: str, words: str) -> None:
        _, failures = checked(subject(token), {}, given, b"")
        assert [failure.path for failure in failures] == [path]
        assert words in failures[0].reason


class TestDiff:
    def test_equal_inputs_are_no_change(self) -> None:
        assert differ(JOB, job(), job()) == ([], False)

    def test_variables_are_told_apart_by_name_not_by_order(self) -> None:
        new = copy.deepcopy(job())
        new["template"]["template"]["containers"][0]["envs"].reverse()
        assert differ(JOB, job(), new) == ([], False)

    def test_a_changed_variable_is_reported_where_the_program_has_it(self) -> None:
        new = copy.deepcopy(job())
        new["template"]["template"]["containers"][0]["envs"] = [
            {"name": "C", "value": "3"},
            {"name": "B", "value": "9"},
        ]
        where = "template.template.containers[0].envs"
        assert differ(JOB, job(), new)[0] == [
            Difference(f"{where}[0]", Change.ADD, replaces=False),
            Difference(f"{where}[1].value", Change.UPDATE, replaces=False),
            Difference(f"{where}[0]", Change.DELETE, replaces=False),
        ]

    def test_a_key_with_dots_is_quoted_in_the_path(self) -> None:
        new = copy.deepcopy(job())
        new["template"]["template"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2"
        path = 'template.template.containers[0].resources.limits["nvidia.com/gpu"]'
        assert differ(JOB, job(), new)[0] == [Difference(path, Change.UPDATE, replaces=False)]

    def test_what_the_program_stops_saying_stays_as_the_api_has_it(self) -> None:
        assert differ(JOB, job(), job(timeout=None)) == ([], False)

    def test_saying_what_the_api_chose_anyway_is_no_change(self) -> None:
        state = {**job(), "launchStage": "GA"}
        assert differ(JOB, job(), {**job(), "launchStage": "GA"}, state) == ([], False)

    def test_a_launch_stage_that_the_api_answers_otherwise_differs_for_ever(self) -> None:
        beta = {**job(), "launchStage": "BETA"}
        assert [each.path for each in differ(JOB, beta, beta, {**beta, "launchStage": "GA"})[0]] == ["launchStage"]

    def test_durations_and_cases_that_mean_the_same_are_no_change(self) -> None:
        def policy(older: str, form: str) -> dict[str, Any]:
            policies = [{"id": "old", "action": "DELETE", "condition": {"olderThan": older}}]
            return {"repositoryId": "r", "format": form, "cleanupPolicies": policies}

        assert differ(REPOSITORY, policy("30d", "DOCKER"), policy("2592000s", "docker")) == ([], False)

    @pytest.mark.parametrize(
        ("token", "changes", "delete_first"),
        [
            (BUCKET, {"location": "US"}, True),
            (BUCKET, {"hierarchicalNamespace": {"enabled": True}}, True),
            (BUCKET, {"name": "other"}, False),
            (ACCOUNT, {"accountId": "other-sa"}, False),
            (REPOSITORY, {"format": "NPM"}, True),
            (GRANT, {"role": "roles/other"}, False),
            (GRANT, {"member": UNKNOWN}, False),
        ],
    )
    def test_what_cannot_be_updated_is_replaced(self, token: str, changes: dict[str, Any], delete_first: bool) -> None:
        old: dict[str, Any] = {
            BUCKET: {"name": "b", "location": "EU"},
            ACCOUNT: {"project": "demo", "accountId": "worker-sa"},
            REPOSITORY: {"project": "demo", "location": "l", "repositoryId": "r", "format": "DOCKER"},
            GRANT: {"bucket": "b", "role": "roles/r", "member": "user:a@b.c"},
        }[token]
        found, first = differ(token, old, {**old, **changes})
        assert [(each.top, each.replaces) for each in found] == [(next(iter(changes)), True)]
        assert first is delete_first

    def test_ignored_properties_are_left_out_of_the_comparison(self) -> None:
        new = {**job(), "labels": {"a": "b"}, "client": "me"}
        found, _ = diffed(subject(JOB), job(), new, job(), ["labels"])
        assert [each.path for each in found] == ["client"]

    def test_a_new_default_label_is_a_change_of_each_labelled_object(self) -> None:
        labelled = Subject(TYPES[JOB], "it", nested=False, settings=Settings(default_labels={"team": "x"}))
        found, _ = diffed(labelled, job(), job(), {**job(), "pulumiLabels": {}}, [])
        assert [each.path for each in found] == ["pulumiLabels"]
