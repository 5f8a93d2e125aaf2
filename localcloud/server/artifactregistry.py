"""Artifact Registry v1: repositories, their policies, and the docker images that builds have pushed."""

import re
import shutil

from localcloud.jsontypes import Json, obj, objects
from localcloud.kinds import Kind
from localcloud.resources import timestamp
from localcloud.server import operations, policies
from localcloud.server.errors import already_exists, invalid, not_found
from localcloud.server.http import Call, Routes, page
from localcloud.server.masks import masked

TYPE = "google.devtools.artifactregistry.v1.Repository"
routes = Routes("/artifactregistry/v1", "/v1")
_REPOSITORIES = "/projects/{project}/locations/{location}/repositories"
_REPOSITORY = _REPOSITORIES + "/{repository}"


def _parent(call: Call) -> str:
    return "projects/{project}/locations/{location}".format(**call.params)


def _repository(call: Call) -> Json:
    return call.stored(Kind.REPOSITORY, f"{_parent(call)}/repositories/{call.params['repository']}")


def _check(repository: Json) -> None:
    if repository.get("format", "DOCKER") not in ("DOCKER", 1):
        raise invalid(f"format: the local cloud keeps DOCKER repositories only, not {repository['format']}.")
    cleanup = obj(repository.get("cleanupPolicies")).values()
    for policy in objects(list(cleanup)):
        if policy.get("action") == "DELETE" and not obj(policy.get("condition")):
            raise invalid(f"cleanup_policies: the DELETE policy {policy.get('id', '')!r} needs a condition.")


@routes.on("POST", _REPOSITORIES)
def create_repository(call: Call) -> Json:
    """Create a repository."""
    repository_id = call.query.get("repositoryId") or call.query.get("repository_id", "")
    if not re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", repository_id):
        raise invalid(
            f"repository_id {repository_id!r}: lowercase letters, digits and '-', beginning with a letter, at most 63."
        )
    name, now = f"{_parent(call)}/repositories/{repository_id}", timestamp()
    if call.cloud.store.get(Kind.REPOSITORY, name) is not None:
        raise already_exists(name)
    _check(call.body)
    host = f"{call.params['location']}-docker.pkg.dev/{call.params['project']}/{repository_id}"
    repository = {**call.body, "name": name, "createTime": now, "updateTime": now, "registryUri": host}
    repository.setdefault("format", "DOCKER")
    repository.setdefault("mode", "STANDARD_REPOSITORY")
    call.cloud.store.put(Kind.REPOSITORY, name, repository)
    return operations.done(call.cloud.store, _parent(call), TYPE, repository)


@routes.on("GET", _REPOSITORIES)
def list_repositories(call: Call) -> Json:
    """Repositories of a location."""
    return page(call, call.cloud.store.list(Kind.REPOSITORY, f"{_parent(call)}/repositories/"), "repositories")


@routes.on("GET", _REPOSITORY)
def get_repository(call: Call) -> Json:
    """One repository."""
    repository = _repository(call)
    images = _images(call)
    size = sum(int(image["imageSizeBytes"]) for image in images)
    return {**repository, **({"sizeBytes": str(size)} if size else {})}


@routes.on("PATCH", _REPOSITORY)
def patch_repository(call: Call) -> Json:
    """Change what `updateMask` names; answers the repository, not an operation."""
    old = _repository(call)
    if call.body.get("format", old["format"]) != old["format"]:
        raise invalid("format cannot be changed.")
    repository = {
        **masked(old, call.body, call.query.get("updateMask", "")),
        "name": old["name"],
        "updateTime": timestamp(),
    }
    _check(repository)
    call.cloud.store.put(Kind.REPOSITORY, old["name"], repository)
    return repository


@routes.on("DELETE", _REPOSITORY)
def delete_repository(call: Call) -> Json:
    """Remove the repository with its images."""
    repository, store = _repository(call), call.cloud.store
    for image in store.list(Kind.IMAGE, f"{repository['name']}/dockerImages/"):
        _delete_image(call, image)
    store.delete(Kind.REPOSITORY, repository["name"])
    policies.drop(store, f"artifactregistry.googleapis.com/{repository['name']}")
    operation = operations.done(store, _parent(call), TYPE, repository)
    operation["response"] = {"@type": "type.googleapis.com/google.protobuf.Empty"}
    store.put(Kind.OPERATION, operation["name"], operation)
    return operation


def _delete_image(call: Call, image: Json) -> None:
    """Forget an image; its files go when no other document has that digest."""
    store, digest = call.cloud.store, str(image["uri"]).rpartition("@sha256:")[2]
    store.delete(Kind.IMAGE, image["name"])
    if not any(str(other["uri"]).endswith(digest) for other in store.list(Kind.IMAGE)):
        shutil.rmtree(call.cloud.settings.images_dir / digest, ignore_errors=True)


def _images(call: Call) -> list[Json]:
    images = call.cloud.store.list(Kind.IMAGE, f"{_repository(call)['name']}/dockerImages/")
    return [{key: value for key, value in image.items() if not key.startswith("_")} for image in images]


@routes.on("GET", _REPOSITORY + "/dockerImages")
def list_images(call: Call) -> Json:
    """Images of a repository, one for each digest."""
    return page(call, _images(call), "dockerImages")


@routes.on("GET", _REPOSITORY + "/dockerImages/{image}")
def get_image(call: Call) -> Json:
    """One image, by `NAME@sha256:...`."""
    name = f"{_repository(call)['name']}/dockerImages/{call.params['image']}"
    image = next((each for each in _images(call) if each["name"] == name), None)
    if image is None:
        raise not_found(name)
    return image


policies.serve(routes, _REPOSITORY, lambda call: f"artifactregistry.googleapis.com/{_repository(call)['name']}")
