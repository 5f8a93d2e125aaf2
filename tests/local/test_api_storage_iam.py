"""Buckets, accounts and policies: what is filled in, what is refused, and what a deleted account leaves behind."""

from typing import Any

import pytest

BUCKETS = "/storage/v1/b?project=local-project"
ACCOUNTS = "/iam/v1/projects/local-project/serviceAccounts"
EMAIL = "trainer@local-project.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{EMAIL}"


def _bucket(call: Any, name: str = "some-bucket", **fields: Any) -> dict[str, Any]:
    return call.ok("POST", BUCKETS, {"name": name, **fields})


def test_a_bucket_gets_the_defaults_of_the_live_api(call: Any) -> None:
    bucket = _bucket(call, location="europe-west4")
    assert (bucket["location"], bucket["locationType"], bucket["storageClass"]) == (
        "EUROPE-WEST4",
        "region",
        "STANDARD",
    )
    assert bucket["softDeletePolicy"]["retentionDurationSeconds"] == "604800"
    assert bucket["iamConfiguration"]["publicAccessPrevention"] == "inherited"
    assert bucket["metageneration"] == "1"
    assert _bucket(call, "other-bucket")["location"] == "US"


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"name": "Capital"}, 400, "Invalid bucket name: 'Capital'"),
        ({"name": "ab"}, 400, "Invalid bucket name"),
        ({"name": "goog-thing"}, 400, "Invalid bucket name"),
        ({"name": "some-bucket", "location": "MOON-1"}, 400, "location constraint is not valid: MOON-1"),
        ({"name": "some-bucket", "softDeletePolicy": {"retentionDurationSeconds": "60"}}, 400, "0 or between 604800"),
        ({"name": "some-bucket", "hierarchicalNamespace": {"enabled": True}}, 400, "uniform bucket-level access"),
    ],
)
def test_a_bucket_is_refused(call: Any, fields: dict[str, Any], code: int, message: str) -> None:
    answer = call("POST", BUCKETS, fields)
    assert answer.status_code == code
    assert message in answer.json()["error"]["message"]


def test_a_bucket_name_is_taken_once(call: Any) -> None:
    _bucket(call)
    answer = call("POST", BUCKETS, {"name": "some-bucket"})
    assert (answer.status_code, answer.json()["error"]["errors"][0]["reason"]) == (409, "conflict")


def test_a_patch_merges_and_cannot_move_a_bucket(call: Any) -> None:
    _bucket(call, labels={"a": "1", "b": "2"}, location="EU")
    patched = call.ok("PATCH", "/storage/v1/b/some-bucket", {"labels": {"a": None, "c": "3"}})
    assert patched["labels"] == {"b": "2", "c": "3"}
    assert patched["metageneration"] == "2"
    assert call("PATCH", "/storage/v1/b/some-bucket", {"location": "US"}).status_code == 400
    assert call("PATCH", "/storage/v1/b/some-bucket?ifMetagenerationMatch=1", {"labels": {}}).status_code == 412


def test_a_bucket_with_objects_is_not_deleted(call: Any) -> None:
    _bucket(call)
    call.ok("POST", "/upload/storage/v1/b/some-bucket/o?uploadType=media&name=d%2Fx", content=b"1")
    answer = call("DELETE", "/storage/v1/b/some-bucket")
    assert (answer.status_code, answer.json()["error"]["errors"][0]["reason"]) == (409, "conflict")
    listed = call.ok("GET", "/storage/v1/b/some-bucket/o?versions=true")["items"]
    path = f"/storage/v1/b/some-bucket/o/d%2Fx?generation={listed[0]['generation']}"
    assert call("DELETE", path).status_code == 204
    assert call("DELETE", "/storage/v1/b/some-bucket").status_code == 204
    assert call("GET", "/storage/v1/b/some-bucket").status_code == 404


def test_nothing_becomes_public_where_that_is_prevented(call: Any) -> None:
    _bucket(call, iamConfiguration={"publicAccessPrevention": "enforced"})
    policy = {"bindings": [{"role": "roles/storage.objectViewer", "members": ["allUsers"]}]}
    answer = call("PUT", "/storage/v1/b/some-bucket/iam", policy)
    assert answer.status_code == 412
    assert "public access prevention is enforced" in answer.json()["error"]["message"]


def test_a_bucket_policy_of_a_stale_etag_is_refused(call: Any) -> None:
    _bucket(call)
    policy = call.ok("GET", "/storage/v1/b/some-bucket/iam")
    policy["bindings"] = [{"role": "roles/storage.objectUser", "members": ["user:a@b.c"]}]
    call.ok("PUT", "/storage/v1/b/some-bucket/iam", policy)
    assert call("PUT", "/storage/v1/b/some-bucket/iam", policy).status_code == 412


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ({"role": "roles/run.invoker", "members": ["a@b.c"]}, "Invalid member 'a@b.c'"),
        ({"role": "invoker", "members": ["user:a@b.c"]}, "Role 'invoker' is not supported"),
        ({"role": "roles/run.invoker", "members": [MEMBER]}, f"Service account {EMAIL} does not exist."),
    ],
)
def test_a_policy_is_refused(call: Any, binding: dict[str, Any], message: str) -> None:
    answer = call("POST", "/crm/v1/projects/local-project:setIamPolicy", {"policy": {"bindings": [binding]}})
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_an_account_made_anew_does_not_inherit_the_grants_of_the_old(call: Any) -> None:
    old = call.ok("POST", ACCOUNTS, {"accountId": "trainer"})
    binding = {"role": "roles/logging.logWriter", "members": [MEMBER]}
    call.ok("POST", "/crm/v1/projects/local-project:setIamPolicy", {"policy": {"bindings": [binding]}})
    call.ok("DELETE", f"{ACCOUNTS}/{EMAIL}")
    new = call.ok("POST", ACCOUNTS, {"accountId": "trainer"})
    assert new["uniqueId"] != old["uniqueId"]
    policy = call.ok("POST", "/crm/v1/projects/local-project:getIamPolicy")
    assert policy["bindings"][0]["members"] == [f"deleted:{MEMBER}?uid={old['uniqueId']}"]


def test_an_account_is_found_by_number_and_changed_by_mask(call: Any) -> None:
    account = call.ok("POST", ACCOUNTS, {"accountId": "trainer", "serviceAccount": {"displayName": "Old"}})
    changed = {"serviceAccount": {"displayName": "New"}, "updateMask": "display_name"}
    call.ok("PATCH", f"{ACCOUNTS}/{EMAIL}", changed)
    assert call.ok("GET", f"/v1/projects/-/serviceAccounts/{account['uniqueId']}")["displayName"] == "New"
    assert call("POST", ACCOUNTS, {"accountId": "trainer"}).status_code == 409
    assert call("POST", ACCOUNTS, {"accountId": "x"}).status_code == 400


def test_a_patched_repository_keeps_what_the_mask_leaves_out(call: Any) -> None:
    path = "/artifactregistry/v1/projects/local-project/locations/europe-west4/repositories"
    call.ok("POST", f"{path}?repository_id=apps", {"format": "DOCKER", "description": "one", "labels": {"a": "b"}})
    patched = call.ok("PATCH", f"{path}/apps?updateMask=description", {"description": "two"})
    assert (patched["description"], patched["labels"]) == ("two", {"a": "b"})
    assert call("POST", f"{path}?repository_id=apps", {"format": "DOCKER"}).status_code == 409
