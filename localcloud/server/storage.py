"""Cloud Storage v1: buckets and their policies are kept here; object requests go on to the emulator (objects.py)."""

import re
import shutil
from typing import cast

from starlette.responses import Response

from localcloud.jsontypes import Json, items, obj
from localcloud.kinds import Kind
from localcloud.resources import etag, numeric_id, project_number, timestamp
from localcloud.server import policies
from localcloud.server.errors import ApiError, invalid
from localcloud.server.http import Call, Routes, page
from localcloud.server.masks import merged

routes = Routes("/storage/v1", "")
_BUCKET = "/b/{bucket}"
_NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$")
_MULTI_REGIONS = frozenset({"US", "EU", "ASIA"})
_DUAL_REGIONS = frozenset({"NAM4", "EUR4", "EUR5", "EUR7", "EUR8", "ASIA1"})
_REGION = re.compile(r"^(AFRICA|ASIA|AUSTRALIA|EUROPE|ME|NORTHAMERICA|SOUTHAMERICA|US)-[A-Z]+\d+$")
_DEFAULT_SOFT_DELETE_S = 7 * 86400


def bucket_of(call: Call) -> Json:
    """The bucket that the request names.

    Raises:
        ApiError: 404 when there is none.
    """
    bucket = call.cloud.store.get(Kind.BUCKET, call.params["bucket"])
    if bucket is None:
        raise ApiError(404, f"The specified bucket does not exist: {call.params['bucket']}.")
    return bucket


def _store(call: Call, bucket: Json) -> Json:
    bucket["updated"] = timestamp()
    bucket["etag"] = etag({key: value for key, value in bucket.items() if key != "etag"})
    call.cloud.store.put(Kind.BUCKET, bucket["name"], bucket)
    return bucket


def _check_conditions(call: Call, bucket: Json) -> None:
    current = bucket["metageneration"]
    wanted, unwanted = call.query.get("ifMetagenerationMatch"), call.query.get("ifMetagenerationNotMatch")
    if (wanted is not None and wanted != current) or unwanted == current:
        raise ApiError(412, "At least one of the pre-conditions you specified did not hold.")


def _location_type(location: str) -> str:
    if location in _MULTI_REGIONS:
        return "multi-region"
    if location in _DUAL_REGIONS:
        return "dual-region"
    if _REGION.match(location):
        return "region"
    raise invalid(f"The specified location constraint is not valid: {location}.")


def _completed(bucket: Json) -> Json:
    """What the API fills in or derives, and what it refuses in the combination."""
    location = str(bucket.get("location") or "US").upper()
    bucket["location"], bucket["locationType"] = location, _location_type(location)
    bucket.setdefault("storageClass", "STANDARD")
    access = bucket.setdefault("iamConfiguration", {})
    uniform = access.setdefault("uniformBucketLevelAccess", {"enabled": False})
    access["bucketPolicyOnly"] = uniform
    access.setdefault("publicAccessPrevention", "inherited")
    if obj(bucket.get("hierarchicalNamespace")).get("enabled") and not uniform.get("enabled"):
        raise invalid("Hierarchical namespace can only be enabled on buckets with uniform bucket-level access.")
    soft = bucket.setdefault("softDeletePolicy", {"retentionDurationSeconds": str(_DEFAULT_SOFT_DELETE_S)})
    keep_s = int(soft.get("retentionDurationSeconds", _DEFAULT_SOFT_DELETE_S))
    if keep_s != 0 and not 7 * 86400 <= keep_s <= 90 * 86400:
        raise invalid(f"The soft delete retention must be 0 or between 604800 and 7776000 seconds, not {keep_s}.")
    soft["retentionDurationSeconds"] = str(keep_s)
    if not items(obj(bucket.get("lifecycle")).get("rule")):
        bucket.pop("lifecycle", None)
    if not bucket.get("labels"):
        bucket.pop("labels", None)
    return bucket


@routes.on("POST", "/b")
def create_bucket(call: Call) -> Json:
    """Create a bucket, and the directory that holds its objects."""
    name, project = str(call.body.get("name", "")), call.query.get("project", "")
    if not project:
        raise ApiError(400, "Required parameter: project", reason="required")
    if not _NAME.match(name) or ".." in name or name.startswith("goog"):
        raise invalid(f"Invalid bucket name: '{name}'")
    if call.cloud.store.get(Kind.BUCKET, name) is not None:
        raise ApiError(
            409,
            f"Your previous request to create the named bucket '{name}' succeeded and you already own it.",
            reason="conflict",
        )
    now = timestamp()
    bucket: Json = _completed(
        {
            **call.body,
            "kind": "storage#bucket",
            "id": name,
            "selfLink": f"{call.cloud.url}/storage/v1/b/{name}",
            "projectNumber": project_number(project),
            "generation": numeric_id(),
            "metageneration": "1",
            "timeCreated": now,
            "_project": project,
        }
    )
    directory = call.cloud.settings.buckets_dir / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return _answer(_store(call, bucket))


def _answer(bucket: Json) -> Json:
    return {key: value for key, value in bucket.items() if not key.startswith("_")}


@routes.on("GET", "/b")
def list_buckets(call: Call) -> Json:
    """Buckets of a project."""
    project, prefix = call.query.get("project", ""), call.query.get("prefix", "")
    found = [each for each in call.cloud.store.list(Kind.BUCKET, prefix) if project in ("", "<none>", each["_project"])]
    found.sort(key=lambda bucket: str(bucket["name"]))
    return {
        "kind": "storage#buckets",
        **page(call, [_answer(each) for each in found], "items", size=1000, size_key="maxResults"),
    }


@routes.on("GET", _BUCKET)
def get_bucket(call: Call) -> Json:
    """One bucket."""
    bucket = bucket_of(call)
    _check_conditions(call, bucket)
    return _answer(bucket)


@routes.on("PATCH", _BUCKET)
def patch_bucket(call: Call) -> Json:
    """Merge a partial document; null removes. What cannot change is refused."""
    old = bucket_of(call)
    _check_conditions(call, old)
    new = _completed(merged(old, {key: value for key, value in call.body.items() if key != "name"}))
    for field in ("location", "hierarchicalNamespace"):
        if new.get(field, {}) != old.get(field, {}):
            raise invalid(f"{field} of bucket {old['name']} cannot be changed after its creation.")
    new["metageneration"] = str(int(old["metageneration"]) + 1)
    return _answer(_store(call, new))


@routes.on("PUT", _BUCKET)
def update_bucket(call: Call) -> Json:
    """Same as PATCH here: no client of this cloud relies on PUT clearing absent fields."""
    return cast("Json", patch_bucket(call))


@routes.on("DELETE", _BUCKET)
def delete_bucket(call: Call) -> Response:
    """Remove an empty bucket."""
    bucket = bucket_of(call)
    _check_conditions(call, bucket)
    directory = call.cloud.settings.buckets_dir / bucket["name"]
    if any(not each.is_dir() for each in directory.rglob("*")):
        raise ApiError(409, f"The bucket you tried to delete is not empty: {bucket['name']}.", reason="conflict")
    call.cloud.store.delete(Kind.BUCKET, bucket["name"])
    policies.drop(call.cloud.store, _policy_key(bucket))
    shutil.rmtree(directory, ignore_errors=True)
    directory.with_name(directory.name + ".bucketMetadata").unlink(missing_ok=True)
    return Response(status_code=204)


def _policy_key(bucket: Json) -> str:
    return f"storage.googleapis.com/b/{bucket['name']}"


def _policy_answer(bucket: Json, policy: Json) -> Json:
    return {"kind": "storage#policy", "resourceId": f"projects/_/buckets/{bucket['name']}", **policy}


@routes.on("GET", _BUCKET + "/iam")
def get_policy(call: Call) -> Json:
    """The bucket's policy."""
    bucket = bucket_of(call)
    return _policy_answer(bucket, policies.get(call.cloud.store, _policy_key(bucket)))


@routes.on("PUT", _BUCKET + "/iam")
def set_policy(call: Call) -> Json:
    """Replace the bucket's policy; a stale etag is 412 here, and nobody public gets in where that is prevented."""
    bucket = bucket_of(call)
    public = {"allUsers", "allAuthenticatedUsers"}
    members = {member for binding in items(call.body.get("bindings")) for member in items(obj(binding).get("members"))}
    if public & members and bucket["iamConfiguration"]["publicAccessPrevention"] == "enforced":
        raise ApiError(
            412,
            "The member bindings allUsers and allAuthenticatedUsers are not allowed since public access "
            "prevention is enforced.",
        )
    try:
        return _policy_answer(bucket, policies.put(call.cloud.store, _policy_key(bucket), call.body))
    except ApiError as error:
        if error.status == "ABORTED":
            raise ApiError(412, error.message) from error
        raise


@routes.on("GET", _BUCKET + "/iam/testPermissions")
def test_permissions(call: Call) -> Json:
    """Everything is permitted: there is one user, who owns this machine."""
    bucket_of(call)
    asked = call.request.query_params.getlist("permissions")
    return {"kind": "storage#testIamPermissionsResponse", "permissions": asked}


@routes.on("GET", _BUCKET + "/storageLayout")
def get_layout(call: Call) -> Json:
    """What gcsfuse asks before it mounts."""
    bucket = bucket_of(call)
    enabled = bool(obj(bucket.get("hierarchicalNamespace")).get("enabled"))
    return {
        "kind": "storage#storageLayout",
        "bucket": bucket["name"],
        "location": bucket["location"],
        "locationType": bucket["locationType"],
        "hierarchicalNamespace": {"enabled": enabled},
    }
