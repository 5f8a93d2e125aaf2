"""A build is asked for as it should be, followed to its end, and a failure says why, with the end of its log."""

import pickle
from pathlib import Path

import dill
import pytest
from pulumi.dynamic import Config, ConfigureRequest

from infra.builder import REBUILD_ON, BuildProvider
from infra.cloud_build import BuildError, BuildRequest, build
from infra.connection import Connection
from infra.context import context_hash, pack
from tests.infra.fake_build import DIGEST, FakeGoogle, serve

DONE = {"id": "build-0", "status": "SUCCESS", "results": {"images": [{"name": "x", "digest": DIGEST}]}, "logUrl": "L"}
WORKING = {"id": "build-0", "status": "WORKING"}


def failed(name: str, kind: str, why: str) -> dict:
    return {"id": name, "status": "FAILURE", "failureInfo": {"type": kind, "detail": why}, "logUrl": "https://log/1"}


@pytest.fixture
def tree(tmp_path) -> Path:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    return tmp_path


@pytest.fixture
def google():
    servers = []

    def start(*builds, **answers) -> FakeGoogle:
        fake = FakeGoogle(builds=[list(looks) for looks in builds], **answers)
        servers.append(serve(fake))
        return fake

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def request_for(tree: Path) -> BuildRequest:
    return BuildRequest(
        project="demo-project",
        region="europe-west4",
        context_hash=context_hash(tree),
        source_bucket="gpu-build-demo-project",
        repository_url="europe-west4-docker.pkg.dev/demo-project/gpujob",
        build_account="projects/demo-project/serviceAccounts/gpu-job-build@demo-project.iam.gserviceaccount.com",
        build_args={"CUDA_MAJOR": "12"},
    )


def connection(google: FakeGoogle) -> Connection:
    return Connection.from_config(
        {
            "cloudBuildCustomEndpoint": f"{google.url}/cloudbuild/v1/",
            "storageCustomEndpoint": f"{google.url}/storage/v1/",
            "loggingCustomEndpoint": f"{google.url}/logging/v2/",
            "accessToken": "secret-token",
        }
    )


def run(tree: Path, google: FakeGoogle, waits: list[float] | None = None) -> dict[str, str]:
    waits = [] if waits is None else waits
    return build(request_for(tree), connection(google), root=tree, sleep=waits.append)


def test_the_answer_is_the_digest_that_was_pushed(tree, google):
    assert run(tree, google([WORKING, WORKING, DONE])) == {
        "image": f"europe-west4-docker.pkg.dev/demo-project/gpujob/worker@{DIGEST}",
        "digest": DIGEST,
        "buildId": "build-0",
        "logUrl": "L",
    }


def test_what_is_uploaded_is_the_context_under_the_name_of_its_content(tree, google):
    cloud = google([DONE])
    run(tree, cloud)
    assert cloud.uploads == {f"context/{context_hash(tree)}.tar.gz": pack(tree)}


def test_a_context_that_is_there_already_is_not_a_problem(tree, google):
    cloud = google([DONE], uploads={f"context/{context_hash(tree)}.tar.gz": pack(tree)})
    assert run(tree, cloud)["digest"] == DIGEST


def test_the_whole_build_that_is_asked_for(tree, google):
    cloud = google([DONE])
    run(tree, cloud)
    tag = f"europe-west4-docker.pkg.dev/demo-project/gpujob/worker:context-{context_hash(tree)[:12]}"
    (asked,) = cloud.created
    assert asked == {
        "source": {
            "storageSource": {
                "bucket": "gpu-build-demo-project",
                "object": f"context/{context_hash(tree)}.tar.gz",
            }
        },
        "steps": [
            {
                "name": "gcr.io/cloud-builders/docker",
                "args": [
                    "build",
                    f"--tag={tag}",
                    "--build-arg=CUDA_MAJOR=12",
                    f"--label=org.opencontainers.image.revision=context-{context_hash(tree)}",
                    ".",
                ],
            }
        ],
        "images": [tag],
        "serviceAccount": "projects/demo-project/serviceAccounts/gpu-job-build@demo-project.iam.gserviceaccount.com",
        "timeout": "3600s",
        "options": {"logging": 5},
        "tags": ["gpujob"],
    }


def test_no_token_travels_over_plain_http(tree, google):
    cloud = google([DONE])
    run(tree, cloud)
    assert cloud.authorizations == {None}


def test_a_proxy_of_the_environment_is_not_asked_about_this_machine(tree, google, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "intern.example")
    assert run(tree, google([DONE]))["digest"] == DIGEST


def test_a_failed_build_says_why_with_the_end_of_its_log(tree, google):
    cloud = google([failed("build-0", "USER_BUILD_STEP", "step 0 exited with 1")], log_lines=["one", "No such wheel"])
    with pytest.raises(BuildError) as caught:
        run(tree, cloud)
    message = str(caught.value)
    assert "build-0" in message
    assert "step 0 exited with 1" in message
    assert "https://log/1" in message
    assert message.index("    one") < message.index("    No such wheel")
    assert "The job was not changed" in message
    assert len(cloud.created) == 1


def test_a_log_that_cannot_be_read_does_not_hide_the_failure(tree, google, monkeypatch):
    from google.cloud import logging

    def broken(*_args, **_kwargs):
        raise PermissionError("logging.logEntries.list denied")

    monkeypatch.setattr(logging, "Client", broken)
    with pytest.raises(BuildError, match=r"step 0 (?s:.*)the log could not be read: logging.logEntries.list denied"):
        run(tree, google([failed("build-0", "USER_BUILD_STEP", "step 0 exited with 1")]))


def test_a_grant_that_is_not_in_force_yet_is_waited_for(tree, google):
    waits: list[float] = []
    cloud = google([DONE], refusals=[(403, "denied"), (400, "service account x does not exist")])
    assert run(tree, cloud, waits)["digest"] == DIGEST
    assert waits == [5, 10]


def test_a_source_that_cannot_be_read_yet_is_built_again(tree, google):
    waits: list[float] = []
    cloud = google([failed("build-0", "FETCH_SOURCE_FAILED", "403")], [{**DONE, "id": "build-1"}])
    assert run(tree, cloud, waits)["buildId"] == "build-1"
    assert waits == [5]


def test_a_grant_that_never_comes_ends_with_what_was_said(tree, google):
    with pytest.raises(BuildError, match=r"did not take the build: .*denied"):
        run(tree, google(refusals=[(403, "denied")] * 6))


def test_another_refusal_is_not_tried_again(tree, google):
    cloud = google(refusals=[(400, "invalid image name")] * 2)
    with pytest.raises(BuildError, match="invalid image name"):
        run(tree, cloud)
    assert len(cloud.refusals) == 1


def test_a_context_that_changed_meanwhile_is_not_built(tree, google):
    request = request_for(tree)
    (tree / "Dockerfile").write_text("FROM other\n")
    cloud = google()
    with pytest.raises(BuildError, match="changed while"):
        build(request, connection(cloud), root=tree)
    assert cloud.requests == []


INPUTS = {
    "project": "demo-project",
    "region": "europe-west4",
    "contextHash": "a",
    "sourceBucket": "s",
    "repositoryUrl": "r",
    "buildAccount": "b",
    "buildArgs": {"CUDA_MAJOR": "12"},
}


@pytest.mark.parametrize("name", REBUILD_ON)
def test_another_image_is_an_update_never_a_replacement(name):
    diff = BuildProvider().diff("id", {**INPUTS, "digest": "d"}, {**INPUTS, name: "other"})
    assert diff.changes is True
    assert diff.replaces == []


@pytest.mark.parametrize("name", sorted(set(INPUTS) - set(REBUILD_ON)))
def test_nothing_is_built_for_another_account_or_bucket(name):
    assert BuildProvider().diff("id", INPUTS, {**INPUTS, name: "other"}).changes is False


def test_the_pickled_provider_is_small_and_knows_no_secret():
    provider = BuildProvider()
    before = dill.dumps(provider, recurse=True)
    provider.configure(ConfigureRequest(Config({"gcp:accessToken": "secret-token"}, "gpujob")))
    assert b"secret-token" not in before
    assert len(before) < 200, "the class itself was pickled, not its name"
    assert type(pickle.loads(before)) is BuildProvider  # noqa: S301 - our own bytes, of a line above


def test_create_and_update_build_with_the_stacks_endpoints(tree, google, monkeypatch):
    import infra.cloud_build

    monkeypatch.setattr(infra.cloud_build.build, "__kwdefaults__", {"root": tree, "sleep": lambda _: None})
    cloud = google([DONE], [{**DONE, "id": "build-1"}])
    provider = BuildProvider()
    config = {
        f"gcp:{p}CustomEndpoint": f"{cloud.url}/{v}"
        for p, v in (("cloudBuild", "cloudbuild/v1/"), ("storage", "storage/v1/"))
    }
    provider.configure(ConfigureRequest(Config(config, "gpujob")))
    inputs = {**INPUTS, "contextHash": context_hash(tree), "__provider": "pickled"}
    created = provider.create(inputs)
    assert created.outs == {
        **{name: value for name, value in inputs.items() if name != "__provider"},
        "image": f"r/worker@{DIGEST}",
        "digest": DIGEST,
        "buildId": "build-0",
        "logUrl": "L",
    }
    assert provider.update(created.id, created.outs, inputs).outs["buildId"] == "build-1"
