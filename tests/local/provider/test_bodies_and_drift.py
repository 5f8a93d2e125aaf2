"""What is sent to the APIs, and what is made of their answers."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.provider.bodies import body_of, values_of
from localcloud.provider.drift import inputs_imported, inputs_seen
from localcloud.provider.products import TYPES
from localcloud.provider.products.artifactregistry import Repository
from localcloud.provider.products.cloudrunv2 import Job
from localcloud.provider.products.storage import Bucket
from localcloud.provider.settings import Settings

SETTINGS = Settings(project="demo", region="europe-west4")


def job_inputs(**task: Any) -> dict[str, Any]:
    container = {"image": "i", "envs": [{"name": "B", "value": "2"}, {"name": "EMPTY", "value": ""}]}
    return {
        "name": "j",
        "project": "demo",
        "location": "l",
        "deletionProtection": False,
        "template": {"template": {"containers": [container], "maxRetries": 0, **task}},
    }


class TestBodies:
    def test_a_job_is_sent_without_blanks_but_with_no_retries(self) -> None:
        volume = {"name": "v", "gcs": {"bucket": "b", "readOnly": False, "mountOptions": ["implicit-dirs"]}}
        task = body_of(Job.inputs, job_inputs(volumes=[volume]))["template"]["template"]
        assert task["maxRetries"] == 0
        assert {"name": "EMPTY"} in task["containers"][0]["env"]
        assert task["volumes"] == [{"name": "v", "gcs": {"bucket": "b", "mountOptions": ["implicit-dirs"]}}]

    def test_an_update_of_a_job_carries_what_the_api_chose_before(self) -> None:
        state = {
            **job_inputs(timeout="600s", executionEnvironment="EXECUTION_ENVIRONMENT_GEN2"),
            "launchStage": "GA",
            "effectiveLabels": {"app": "old", "team": "theirs"},
            "labels": {"app": "old"},
            "pulumiLabels": {"app": "old"},
        }
        body = Job().patch(SETTINGS, {**job_inputs(), "labels": {"app": "new"}}, state)
        assert body["launchStage"] == "GA"
        assert body["template"]["template"]["timeout"] == "600s"
        assert body["labels"] == {"app": "new", "team": "theirs"}
        assert "deletionProtection" not in body

    def test_a_bucket_patch_holds_only_what_changed_and_null_takes_a_label_away(self) -> None:
        old = {"name": "b", "labels": {"app": "x"}, "storageClass": "STANDARD"}
        state = {**old, "effectiveLabels": {"app": "x"}, "pulumiLabels": {"app": "x"}}
        new = {**old, "labels": {"b": "c"}}
        assert Bucket().patch(SETTINGS, old, new, state) == {"labels": {"app": None, "b": "c"}}

    def test_a_bucket_patch_sends_the_access_settings_together(self) -> None:
        old = {"name": "b", "uniformBucketLevelAccess": True}
        new = {**old, "publicAccessPrevention": "enforced"}
        assert Bucket().patch(SETTINGS, old, new, old) == {
            "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"}
        }

    def test_lifecycle_rules_that_the_program_drops_are_taken_away(self) -> None:
        rule = {"action": {"type": "Delete"}, "condition": {"age": 3}}
        old = {"name": "b", "lifecycleRules": [rule]}
        assert Bucket().patch(SETTINGS, old, {"name": "b"}, old) == {"lifecycle": {"rule": []}}

    def test_what_the_program_stops_saying_about_access_keeps_the_apis_value(self) -> None:
        old = {"name": "b", "uniformBucketLevelAccess": True, "publicAccessPrevention": "enforced"}
        new = {"name": "b", "publicAccessPrevention": "inherited"}
        assert Bucket().patch(SETTINGS, old, new, old) == {
            "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "inherited"}
        }

    def test_seconds_of_soft_delete_are_sent_as_text_even_when_zero(self) -> None:
        body = body_of(Bucket.inputs, {"softDeletePolicy": {"retentionDurationSeconds": 0}})
        assert body == {"softDeletePolicy": {"retentionDurationSeconds": "0"}}

    def test_cleanup_policies_are_a_map_by_id_in_both_directions(self) -> None:
        policies = [{"id": "keep", "action": "KEEP", "mostRecentVersions": {"keepCount": 5}}]
        body = body_of(Repository.inputs, {"cleanupPolicies": policies})
        assert body == {"cleanupPolicies": {"keep": {"action": "KEEP", "mostRecentVersions": {"keepCount": 5}}}}
        assert values_of(Repository.inputs, body) == {"cleanupPolicies": policies}


class TestDrift:
    def test_an_answer_that_means_what_was_written_keeps_its_spelling(self) -> None:
        old = {"name": "b", "location": "eu", "labels": {"app": "x"}, "uniformBucketLevelAccess": True}
        seen = {"name": "b", "location": "EU", "labels": {"app": "x", "other": "y"}, "uniformBucketLevelAccess": True}
        assert inputs_seen(Bucket.inputs, old, seen) == old

    def test_what_the_api_fills_in_is_no_input(self) -> None:
        seen = {**job_inputs(timeout="600s"), "launchStage": "GA"}
        seen["template"]["template"]["containers"][0] |= {"resources": {"limits": {"cpu": "1000m"}}}
        seen["template"]["template"]["containers"][0]["envs"] = [{"name": "EMPTY"}, {"name": "B", "value": "2"}]
        assert inputs_seen(Job.inputs, job_inputs(), seen) == job_inputs()

    def test_what_somebody_else_changed_becomes_an_input(self) -> None:
        seen = job_inputs(gpuZonalRedundancyDisabled=True)
        seen["template"]["template"]["containers"][0] |= {"args": ["--fast"]}
        seen["template"]["template"]["containers"][0]["envs"] = [
            {"name": "B", "value": "9"},
            {"name": "C", "value": "3"},
        ]
        inputs = inputs_seen(Job.inputs, job_inputs(), seen)["template"]["template"]
        assert inputs["gpuZonalRedundancyDisabled"] is True
        assert inputs["containers"][0]["args"] == ["--fast"]
        assert inputs["containers"][0]["envs"] == [{"name": "B", "value": "9"}, {"name": "C", "value": "3"}]

    def test_an_import_takes_everything_that_the_object_shows(self) -> None:
        seen = {**job_inputs(timeout="600s"), "launchStage": "GA", "labels": {}, "uid": "u"}
        imported = inputs_imported(Job.inputs, seen)
        assert (imported["launchStage"], imported["template"]["template"]["timeout"]) == ("GA", "600s")
        assert imported["template"]["template"]["maxRetries"] == 0
        assert not {"labels", "uid"} & set(imported)


@pytest.mark.parametrize(
    ("token", "id_", "canonical"),
    [
        ("gcp:projects/service:Service", "demo/run.googleapis.com", "demo/run.googleapis.com"),
        ("gcp:storage/bucket:Bucket", "name", "name"),
        ("gcp:cloudrunv2/job:Job", "projects/p/locations/l/jobs/j", "projects/p/locations/l/jobs/j"),
        (
            "gcp:serviceaccount/account:Account",
            "projects/p/serviceAccounts/worker@p.iam.gserviceaccount.com",
            "projects/p/serviceAccounts/worker@p.iam.gserviceaccount.com",
        ),
        (
            "gcp:artifactregistry/repository:Repository",
            "projects/p/locations/l/repositories/r",
            "projects/p/locations/l/repositories/r",
        ),
        ("gcp:storage/bucketIAMMember:BucketIAMMember", "b/x roles/r user:a@b.c", "b/x/roles/r/user:a@b.c"),
        ("gcp:projects/iAMMember:IAMMember", "p roles/r user:a@b.c", "p/roles/r/user:a@b.c"),
        (
            "gcp:serviceaccount/iAMMember:IAMMember",
            "projects/p/serviceAccounts/e@x roles/r user:a@b.c",
            "projects/p/serviceAccounts/e@x/roles/r/user:a@b.c",
        ),
        (
            "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
            "projects/p/locations/l/repositories/r roles/r user:a@b.c",
            "projects/p/locations/l/repositories/r/roles/r/user:a@b.c",
        ),
        (
            "gcp:cloudrunv2/jobIamMember:JobIamMember",
            "projects/p/locations/l/jobs/j roles/r user:a@b.c",
            "projects/p/locations/l/jobs/j/roles/r/user:a@b.c",
        ),
        ("gcp:logging/metric:Metric", "a/b", "a/b"),
        ("gcp:monitoring/alertPolicy:AlertPolicy", "projects/p/alertPolicies/1", "projects/p/alertPolicies/1"),
        ("gcp:monitoring/dashboard:Dashboard", "projects/p/dashboards/1", "projects/p/dashboards/1"),
        (
            "gcp:monitoring/notificationChannel:NotificationChannel",
            "projects/p/notificationChannels/1",
            "projects/p/notificationChannels/1",
        ),
        ("gcp:cloudscheduler/job:Job", "projects/p/locations/l/jobs/j", "projects/p/locations/l/jobs/j"),
    ],
)
def test_an_import_id_leads_to_the_id_that_create_gives(token: str, id_: str, canonical: str) -> None:
    assert TYPES[token].id_of({"project": "demo", **TYPES[token].named_by(id_)}) == canonical
