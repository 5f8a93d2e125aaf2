"""An image that vanished is noticed on a refresh; one that could not be looked for never is taken for vanished."""

import pytest
from pulumi.dynamic import Config, ConfigureRequest

from infra.builder import BuildProvider
from infra.connection import Connection
from infra.image_registry import RegistryError, image_exists
from tests.unit.ops.google_stub import serving

DIGEST = "sha256:" + "d" * 64
IMAGE = f"europe-west4-docker.pkg.dev/demo-project/gpujob/worker@{DIGEST}"
REPOSITORY = "projects/demo-project/locations/europe-west4/repositories/gpujob"
ASKED = f"GET /artifactregistry/v1/{REPOSITORY}/dockerImages/worker@{DIGEST}"


@pytest.fixture
def registry():
    with serving() as stub:
        yield stub


def connection(registry) -> Connection:
    return Connection(registry_url=f"http://127.0.0.1:{registry.port}/artifactregistry/v1/")


def test_an_image_that_is_there_is_there(registry):
    registry.answer(ASKED, {"name": "x"})
    assert image_exists(IMAGE, connection(registry))


def test_an_image_that_the_registry_does_not_know_is_gone(registry):
    assert not image_exists(IMAGE, connection(registry))


@pytest.mark.parametrize("status", [403, 429, 500])
def test_any_other_answer_is_no_answer(registry, status):
    registry.refuse(ASKED, status, "not now")
    with pytest.raises(RegistryError, match=rf"cannot be told: .*{status}(?s:.*)roles/artifactregistry.reader"):
        image_exists(IMAGE, connection(registry))


def test_a_registry_that_does_not_answer_is_no_answer():
    with pytest.raises(RegistryError, match="cannot be told: ConnectionError"):
        image_exists(IMAGE, Connection(registry_url="http://127.0.0.1:9/artifactregistry/v1/"))


@pytest.mark.parametrize("image", ["", "europe-west4-docker.pkg.dev/demo-project/gpujob/worker:latest"])
def test_what_is_no_image_by_digest_cannot_be_looked_for(image):
    with pytest.raises(RegistryError, match="not an image of Artifact Registry by digest"):
        image_exists(image, Connection())


def provider(registry) -> BuildProvider:
    found = BuildProvider()
    url = f"http://127.0.0.1:{registry.port}/artifactregistry/v1/"
    found.configure(ConfigureRequest(Config({"gcp:artifactRegistryCustomEndpoint": url}, "gpujob")))
    return found


def test_a_refresh_forgets_a_vanished_image_so_that_the_next_update_builds_it(registry):
    assert provider(registry).read("id", {"image": IMAGE}).id == ""


def test_a_refresh_keeps_an_image_as_it_was(registry):
    registry.answer(ASKED, {"name": "x"})
    found = provider(registry).read("id", {"image": IMAGE, "digest": DIGEST, "__provider": "pickled"})
    assert (found.id, found.outs) == ("id", {"image": IMAGE, "digest": DIGEST})
