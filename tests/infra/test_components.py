"""The whole inputs of everything else that the program registers, and what is not registered."""

import pytest

from infra.context import context_hash
from infra.image import PROJECT_ROOT
from tests.infra.conftest import DIGEST

BUILD = "serviceAccount:gpu-job-build@demo-project.iam.gserviceaccount.com"
JOB = "serviceAccount:gpu-job-sa@demo-project.iam.gserviceaccount.com"
LABELS = {"app": "gpujob", "gpujob-stack": "any"}

EXPECTED = {
    ("gcp:serviceaccount/account:Account", "job-account"): {
        "project": "demo-project",
        "accountId": "gpu-job-sa",
        "displayName": "GPU job",
        "description": "Made by stack any.",
    },
    ("gcp:serviceaccount/account:Account", "build-account"): {
        "project": "demo-project",
        "accountId": "gpu-job-build",
        "displayName": "GPU job image build",
        "description": "Made by stack any.",
    },
    ("gcp:projects/iAMMember:IAMMember", "build-logging-logWriter"): {
        "project": "demo-project",
        "role": "roles/logging.logWriter",
        "member": BUILD,
    },
    ("gcp:storage/bucket:Bucket", "checkpoints-bucket"): {
        "project": "demo-project",
        "name": "gpu-checkpoints-demo-project",
        "location": "EUROPE-WEST4",
        "forceDestroy": False,
        "uniformBucketLevelAccess": True,
        "publicAccessPrevention": "enforced",
        "softDeletePolicy": {"retentionDurationSeconds": 0},
        "labels": LABELS,
    },
    ("gcp:storage/bucketIAMMember:BucketIAMMember", "checkpoints-job"): {
        "bucket": "gpu-checkpoints-demo-project",
        "role": "roles/storage.objectUser",
        "member": JOB,
    },
    ("gcp:storage/bucket:Bucket", "image-source"): {
        "project": "demo-project",
        "name": "gpu-build-demo-project",
        "location": "EUROPE-WEST4",
        "forceDestroy": True,
        "uniformBucketLevelAccess": True,
        "publicAccessPrevention": "enforced",
        "softDeletePolicy": {"retentionDurationSeconds": 0},
        "lifecycleRules": [{"action": {"type": "Delete"}, "condition": {"age": 7}}],
        "labels": LABELS,
    },
    ("gcp:storage/bucketIAMMember:BucketIAMMember", "image-source-reader"): {
        "bucket": "gpu-build-demo-project",
        "role": "roles/storage.objectViewer",
        "member": BUILD,
    },
    ("gcp:artifactregistry/repository:Repository", "registry-repository"): {
        "project": "demo-project",
        "location": "europe-west4",
        "repositoryId": "gpujob",
        "format": "DOCKER",
        "labels": LABELS,
        "cleanupPolicies": [
            {"id": "keep-newest", "action": "KEEP", "mostRecentVersions": {"keepCount": 10}},
            {
                "id": "keep-promoted",
                "action": "KEEP",
                "condition": {"tagState": "TAGGED", "tagPrefixes": ["promoted-"]},
            },
            {"id": "delete-old", "action": "DELETE", "condition": {"tagState": "ANY", "olderThan": "2592000s"}},
        ],
    },
    ("gcp:artifactregistry/repositoryIamMember:RepositoryIamMember", "registry-writer-build"): {
        "project": "demo-project",
        "location": "europe-west4",
        "repository": "gpujob",
        "role": "roles/artifactregistry.writer",
        "member": BUILD,
    },
    ("pulumi-python:dynamic/gpujob:BuiltImage", "image-build"): {
        "project": "demo-project",
        "region": "europe-west4",
        "sourceBucket": "gpu-build-demo-project",
        "repositoryUrl": "europe-west4-docker.pkg.dev/demo-project/gpujob",
        "buildAccount": "projects/demo-project/serviceAccounts/gpu-job-build@demo-project.iam.gserviceaccount.com",
        "buildArgs": {
            "CUDA_MAJOR": "12",
            "TORCH_INDEX": "https://download.pytorch.org/whl/cu126",
            "TORCH_REQUIREMENT": "torch>=2.9,<=2.15.0",
        },
    },
}
SERVICES = ("artifactregistry", "cloudbuild", "iam", "logging", "monitoring", "run", "storage")
OBSERVING = ("gcp:logging/", "gcp:monitoring/")
"""Types of test_observability.py."""
EXPECTED |= {
    ("gcp:projects/service:Service", f"services-{api}"): {
        "project": "demo-project",
        "service": f"{api}.googleapis.com",
        "disableOnDestroy": False,
    }
    for api in SERVICES
}
EXPECTED["pulumi-python:dynamic/gpujob:BuiltImage", "image-build"]["contextHash"] = context_hash(PROJECT_ROOT)


@pytest.mark.parametrize("which", EXPECTED, ids=lambda which: which[1])
def test_registers_whole(deploy, which):
    assert deploy().inputs[which] == EXPECTED[which]


def test_registers_nothing_else(deploy):
    components = {which for which in deploy().inputs if which[0].startswith("gpujob:infra:")}
    assert components == {
        ("gpujob:infra:Services", "services"),
        ("gpujob:infra:Account", "job"),
        ("gpujob:infra:Account", "build"),
        ("gpujob:infra:Checkpoints", "checkpoints"),
        ("gpujob:infra:Registry", "registry"),
        ("gpujob:infra:Image", "image"),
        ("gpujob:infra:GpuJob", "gpu"),
        ("gpujob:infra:Observability", "observability"),
    }
    others = {which for which in deploy().inputs if not which[0].startswith(OBSERVING)}
    assert others - components == {*EXPECTED, ("gcp:cloudrunv2/job:Job", "gpu-job")}


def test_a_disposable_stack_may_be_emptied(deploy):
    assert deploy(disposable="true").inputs["gcp:storage/bucket:Bucket", "checkpoints-bucket"]["forceDestroy"] is True


def test_a_pinned_image_needs_no_build_account_no_source_bucket_no_repository_and_no_cloud_build(deploy):
    image = f"europe-west4-docker.pkg.dev/dev-project/gpujob/worker@{DIGEST}"
    registered = deploy(image=image)
    kinds = {kind for kind, _ in registered.inputs}
    assert "pulumi-python:dynamic/gpujob:BuiltImage" not in kinds
    assert "gcp:artifactregistry/repository:Repository" not in kinds
    assert "gcp:projects/iAMMember:IAMMember" not in kinds
    assert set(registered.of_type("gcp:storage/bucket:Bucket")) == {"checkpoints-bucket"}
    assert set(registered.of_type("gcp:serviceaccount/account:Account")) == {"job-account"}
    assert "services-cloudbuild" not in registered.of_type("gcp:projects/service:Service")
    job = registered.only("gcp:cloudrunv2/job:Job")
    assert job["template"]["template"]["containers"][0]["image"] == image
    assert registered.outputs["imageSource"] == "pinned"
    assert registered.outputs["imageDigest"] == DIGEST


def test_an_image_pinned_out_of_the_own_repository_keeps_the_repository(deploy):
    registered = deploy(image=f"europe-west4-docker.pkg.dev/demo-project/gpujob/worker@{DIGEST}")
    assert registered.of_type("gcp:artifactregistry/repository:Repository")
    assert "pulumi-python:dynamic/gpujob:BuiltImage" not in {kind for kind, _ in registered.inputs}


def test_readers_get_the_repository_and_nothing_else(deploy):
    agent = "serviceAccount:service-1@serverless-robot-prod.iam.gserviceaccount.com"
    grants = deploy(imageReaders=f'["{agent}"]').of_type("gcp:artifactregistry/repositoryIamMember:RepositoryIamMember")
    assert grants[f"registry-reader-{agent}"] == {
        "project": "demo-project",
        "location": "europe-west4",
        "repository": "gpujob",
        "role": "roles/artifactregistry.reader",
        "member": agent,
    }


def test_exports_have_the_agreed_names_and_values(deploy):
    outputs = deploy().outputs
    where = "--region europe-west4 --project demo-project"
    assert outputs["jobId"] == "projects/demo-project/locations/europe-west4/jobs/gpu-resilient-job"
    assert outputs["checkpointUrl"] == "gs://gpu-checkpoints-demo-project/gpu-resilient-job-task-0"
    assert outputs["bucketUrl"] == "gs://gpu-checkpoints-demo-project"
    assert outputs["imageDigest"] == DIGEST
    assert outputs["imageSource"] == "built"
    assert outputs["serviceAccount"] == "gpu-job-sa@demo-project.iam.gserviceaccount.com"
    assert outputs["runCommand"] == f"gcloud run jobs execute gpu-resilient-job {where}"
    assert outputs["exposureGpuHours"] == 48
    assert outputs["exposureUsd"] == pytest.approx(50.24, abs=0.05)
    assert outputs["endpoints"] == {}
    assert outputs["dashboardUrl"].startswith("https://console.cloud.google.com/monitoring/dashboards/builder/")
    assert outputs["dashboardUrl"].endswith("?project=demo-project")
    assert set(outputs) == {
        *("project", "region", "jobName", "jobId", "bucket", "bucketUrl", "checkpointUrl"),
        *("image", "imageDigest", "imageSource", "serviceAccount"),
        *("runCommand", "statusCommand", "logsCommand", "cancelCommand", "consoleUrl", "logsUrl", "dashboardUrl"),
        *("exposureGpuHours", "exposureUsd", "endpoints"),
    }


def test_two_stacks_in_one_project_share_no_name(deploy):
    def names(registered):
        fields = ("name", "accountId", "repositoryId")
        return {
            i[f] for (kind, _), i in registered.inputs.items() for f in fields if kind.startswith("gcp:") and f in i
        }

    assert not names(deploy()) & names(deploy(nameSuffix="b"))
