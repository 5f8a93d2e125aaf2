"""The deployed program under the real engine: what each setting changes, builds, protection, a teardown to nothing."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import requests
import yaml

from infra.settings import declared_keys
from localcloud.testing import running_cloud
from ops.errors import NotSucceededError
from ops.leftovers import look_for_leftovers
from tests.local.stack import support, test_life_of_a_stack
from tests.local.stack.support import LocalStack
from tests.local.stack.test_life_of_a_stack import ONE_SETTING

ROOT = Path(__file__).parents[2]
PROGRAM = (
    "__main__.py",
    "Pulumi.yaml",
    "Pulumi.local.yaml",
    "Dockerfile",
    ".dockerignore",
    "infra",
    "app",
    "requirements",
)
REPOSITORY = "projects/local-project/locations/europe-west4/repositories/gpujob"
DIGEST = "sha256:" + "a" * 64

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def stack_of_a_copy(tmp_path_factory):
    """A stack of a copy of the program, which a test may break. Without alerts, which have tests of their own."""
    folder = tmp_path_factory.mktemp("program")
    tree = folder / "tree"
    tree.mkdir()
    for name in PROGRAM:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tree / name)
    with pytest.MonkeyPatch.context() as patch, running_cloud(folder / "cloud") as cloud:
        patch.setattr(support, "TREE", tree)
        stack = LocalStack(cloud, folder)
        stack.set("gpujob:observability", False)
        yield stack


@pytest.fixture
def stack(stack_of_a_copy):
    """Deployed; each test leaves settings and files as it found them, though perhaps destroyed."""
    if not stack_of_a_copy.inventory():
        assert stack_of_a_copy.changes("up") == {"create": 24}
    return stack_of_a_copy


def image(stack: LocalStack) -> str:
    return stack.job().json()["template"]["template"]["containers"][0]["image"]


def planned(stack: LocalStack, **keys) -> dict[str, set[str]]:
    """What a preview with these keys would do: operation -> names of resources. The stack's file is left alone."""
    content = yaml.safe_load(stack.config.read_text())
    content["config"] |= {f"gpujob:{name}": value for name, value in keys.items()}
    config = stack.folder / "otherwise.yaml"
    config.write_text(yaml.safe_dump(content))
    said = stack.pulumi("preview", "--json", "--stack", "local", "--config-file", str(config))
    steps = json.JSONDecoder().raw_decode(said[said.index("{") :])[0]["steps"]
    found: dict[str, set[str]] = {}
    for step in steps:
        if step["op"] != "same":
            found.setdefault(step["op"], set()).add(step["urn"].rpartition("::")[2])
    return found


ONLY_THE_JOB = {
    "workload": "countdown",
    "workloadArgs": ["--steps", "9"],
    "cpu": "6",
    "memory": "24Gi",
    "timeout": "3601s",
    "maxRetries": 5,
    "taskCount": 4,
    "parallelism": 2,
    "requireGpu": True,
    "env": {"A": "1"},
    "mountPath": "/data",
    "ephemeralDisk": "10Gi",
    "ephemeralDiskPath": "/cache",
}
"""Which field of the job each of these changes, and that it changes no other, tests/infra/test_job_fields.py shows."""

CHANGES = {
    "what runs": (ONLY_THE_JOB, {"update": {"gpu-job"}}),
    "another GPU": (
        {"gpuType": "nvidia-rtx-pro-6000", "cpu": "20", "memory": "80Gi"},
        {"update": {"image-build", "gpu-job"}},
    ),
    "labels, prices and limits": (
        {
            "labels": {"team": "a"},
            **{"gpuUsdPerHour": "2", "maxExposureUsd": "500", "trainingHours": "3", "interruptionsPerDay": "2"},
        },
        {"update": {"checkpoints-bucket", "image-source", "registry-repository", "gpu-job"}},
    ),
    "who reads, and what is kept": (
        {
            "imageReaders": ["group:a@example.com"],
            "bucketRole": "roles/storage.objectAdmin",
            "softDeleteSeconds": 604800,
            "readOnlyBuckets": {"data": {"bucket": "our-data", "mountPath": "/data"}},
        },
        {
            "create": {"registry-reader-group:a@example.com", "access", "access-bucket-data"},
            "replace": {"checkpoints-job"},
            "update": {"checkpoints-bucket", "gpu-job"},
        },
    ),
    "secrets": (
        {"secrets": {"API_TOKEN": "projects/local-project/secrets/api-token/versions/1"}},
        {
            "create": {"services-secretmanager", "access", "access-secret-local-project-api-token"},
            "update": {"gpu-job"},
        },
    ),
    "a pinned image of the own repository": (
        {"image": f"europe-west4-docker.pkg.dev/local-project/gpujob/worker@{DIGEST}"},
        {
            "update": {"gpu-job"},
            "delete": {
                *("services-cloudbuild", "build", "build-account", "build-logging-logWriter", "registry-writer-build"),
                *("image", "image-source", "image-source-reader", "image-build"),
            },
        },
    ),
    "protection": ({"disposable": False}, {"update": {"checkpoints-bucket", "gpu-job"}}),
    "a namespace with folders": (
        {"hierarchicalNamespace": True},
        {"replace": {"checkpoints-bucket", "checkpoints-job"}},
    ),
    "the bucket's name": (
        {"bucketName": "another-bucket-of-ours"},
        {"replace": {"checkpoints-bucket", "checkpoints-job"}, "update": {"gpu-job"}},
    ),
    "names of the job and of the build": (
        {
            "jobName": "another-job",
            "buildAccountName": "another-account",
            "sourceBucketName": "another-source-of-ours",
        },
        {
            "replace": {
                "gpu-job",
                *("build-account", "build-logging-logWriter", "registry-writer-build"),
                *("image-source", "image-source-reader"),
            }
        },
    ),
    "names of the job's account and of the repository": (
        {"accountName": "another-account", "repositoryName": "another"},
        {
            "replace": {"job-account", "checkpoints-job", "registry-repository", "registry-writer-build"},
            "update": {"image-build", "gpu-job"},
        },
    ),
}


ELSEWHERE = {
    "nameSuffix": "test_a_second_stack_in_the_project_shares_nothing_with_the_first",
    "observability": "test_what_observes_can_be_taken_away_and_comes_back",
}
"""Settings whose change the engine is shown by a test of their own."""
NOT_HERE = {"network", "subnetwork", "networkTags", "egress", "kmsKey", "binaryAuthorization"}
"""The local cloud has none of these; its plugin refuses them. tests/infra/test_guarded_inputs.py holds their inputs."""


def test_the_engine_is_shown_a_change_of_every_setting_that_the_local_cloud_has():
    tried = {key for keys, _ in CHANGES.values() for key in keys}
    tried |= {key.partition(":")[2] for key, *_ in ONE_SETTING}
    assert tried | set(ELSEWHERE) | NOT_HERE == set(declared_keys())
    assert not tried & NOT_HERE
    here = {name for module in (sys.modules[__name__], test_life_of_a_stack) for name in vars(module)}
    assert set(ELSEWHERE.values()) <= here


@pytest.mark.parametrize("which", CHANGES)
def test_a_changed_setting_makes_exactly_the_update_or_replacement_that_the_page_says(stack, which):
    keys, expected = CHANGES[which]
    assert planned(stack, **keys) == expected


def test_a_changed_file_of_the_context_builds_and_updates_the_job_and_nothing_else(stack):
    before = image(stack)
    (support.TREE / "app" / "new.py").write_text("x = 1\n")
    (support.TREE / "README.md").write_text("outside of the context\n")
    assert stack.changed_urns("up") == [
        ("update", "pulumi-python:dynamic/gpujob:BuiltImage"),
        ("update", "gcp:cloudrunv2/job:Job"),
    ]
    assert image(stack) != before
    assert image(stack) == stack.output("image")
    (support.TREE / "app" / "new.py").unlink()
    stack.changes("up")
    (support.TREE / "README.md").write_text("otherwise\n")
    assert planned(stack) == {}


def test_an_image_that_vanished_from_the_registry_is_built_again(stack):
    requests.delete(f"{stack.cloud.url}/artifactregistry/v1/{REPOSITORY}", timeout=30).raise_for_status()
    assert stack.changed_urns("up", "--refresh") == [
        ("create", "gcp:artifactregistry/repository:Repository"),
        ("create", "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"),
        ("create", "pulumi-python:dynamic/gpujob:BuiltImage"),
    ]
    images = requests.get(f"{stack.cloud.url}/artifactregistry/v1/{REPOSITORY}/dockerImages", timeout=30).json()
    assert image(stack) in {each["uri"] for each in images["dockerImages"]}
    assert stack.changes("up", "--refresh") == {}


def test_a_failed_build_shows_the_end_of_its_log_and_leaves_the_job_alone(stack):
    before = image(stack)
    dockerfile = support.TREE / "Dockerfile"
    good = dockerfile.read_text()
    dockerfile.write_text(good + "COPY nowhere/ nowhere/\n")
    said = stack.on_stack("up", "--yes", "--skip-preview", expect=1)
    for words in ("ended as FAILURE", "Its last lines", "COPY nowhere/ nowhere/", "The job was not changed"):
        assert words in said
    assert "pulumi/dynamic/__main__.py" not in said, "a traceback buries the message"
    assert image(stack) == before
    dockerfile.write_text(good)
    assert planned(stack) == {}


def test_a_second_stack_in_the_project_shares_nothing_with_the_first(stack):
    first = set(stack.inventory())
    content = yaml.safe_load(stack.config.read_text())
    content["config"]["gpujob:nameSuffix"] = "b"
    config = stack.folder / "Pulumi.second.yaml"
    config.write_text(yaml.safe_dump(content))
    second = ("--stack", "second", "--config-file", str(config))
    # `stack init` writes a salt into the stack's file; the program under test is a copy, so that may be.
    stack.pulumi("stack", "init", "second")
    stack.pulumi("up", "--yes", "--skip-preview", *second)
    added = {name for name in set(stack.inventory()) - first if "IAM policy" not in name}
    assert len(added) >= 7, added
    assert first <= set(stack.inventory())
    stack.on_stack("preview", "--refresh", "--expect-no-changes")
    stack.pulumi("destroy", "--yes", "--skip-preview", *second)
    assert set(stack.inventory()) == first


def test_renaming_a_stack_replaces_nothing(stack):
    config = ["--config-file", str(stack.config)]
    stack.pulumi("stack", "rename", "another", "--stack", "local")
    stack.pulumi("preview", "--stack", "another", *config, "--expect-no-changes")
    stack.pulumi("stack", "rename", "local", "--stack", "another")


REPLACING = (
    ("gcp:region", "europe-west1"),
    ("gpujob:bucketName", "another-bucket-of-ours"),
    ("gpujob:hierarchicalNamespace", True),
)


def test_a_protected_stack_refuses_replacements_goes_in_two_steps_and_leaves_nothing(stack):
    stack.set("gpujob:disposable", False)
    stack.on_stack("up", "--yes", "--skip-preview")
    before = stack.inventory()
    was = stack.config.read_text()
    for key, value in REPLACING:
        stack.set(key, value)
        assert "marked for protection" in stack.on_stack("up", "--yes", expect=1), key
        stack.config.write_text(was)
    assert "protected" in stack.on_stack("destroy", "--yes", expect=1)
    assert stack.inventory() == before
    with pytest.raises(NotSucceededError, match="gpu-checkpoints-local-project"):
        look_for_leftovers(stack.config, print)

    stack.set("gpujob:disposable", True)
    stack.on_stack("up", "--yes", "--skip-preview")
    stack.on_stack("destroy", "--yes", "--skip-preview")
    assert stack.inventory() == []
    look_for_leftovers(stack.config, print)
