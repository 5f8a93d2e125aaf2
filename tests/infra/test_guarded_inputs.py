"""What secrets, buckets of others, disk, network, key and attestation declare: whole inputs, against mocks.

The local cloud has none of the services behind most of these, so this is where they are held.
"""

import pytest

from infra.volumes import MOUNT_OPTIONS, READ_ONLY_OPTIONS

JOB = "gcp:cloudrunv2/job:Job"
MEMBER = "serviceAccount:gpu-job-sa@demo-project.iam.gserviceaccount.com"
KEY = "projects/keys-project/locations/europe-west4/keyRings/ring/cryptoKeys/key"


def task(registered) -> dict:
    return registered.only(JOB)["template"]["template"]


def apis(registered) -> set[str]:
    return {name.removeprefix("services-") for name in registered.of_type("gcp:projects/service:Service")}


SECRETS = (
    '{"HUB_TOKEN": "projects/demo-project/secrets/hub/versions/3",'
    ' "HUB_OLD": "projects/demo-project/secrets/hub/versions/2",'
    ' "API_KEY": "projects/other-project/secrets/api/versions/7"}'
)


def test_secrets_are_variables_by_reference_sorted_among_the_others(deploy):
    envs = task(deploy(secrets=SECRETS, env='{"HUB_A": "x"}'))["containers"][0]["envs"]
    assert envs == [
        {
            "name": "API_KEY",
            "valueSource": {"secretKeyRef": {"secret": "projects/other-project/secrets/api", "version": "7"}},
        },
        {"name": "CHECKPOINT_DIR", "value": "/checkpoints"},
        {"name": "HUB_A", "value": "x"},
        {"name": "HUB_OLD", "valueSource": {"secretKeyRef": {"secret": "hub", "version": "2"}}},
        {"name": "HUB_TOKEN", "valueSource": {"secretKeyRef": {"secret": "hub", "version": "3"}}},
        {"name": "MAX_RETRIES", "value": "3"},
        {"name": "REQUIRED_GPU", "value": "nvidia-l4"},
        {"name": "TASK_TIMEOUT_S", "value": "43200"},
    ]


def test_each_secret_is_granted_once_on_itself(deploy):
    registered = deploy(secrets=SECRETS)
    role = {"role": "roles/secretmanager.secretAccessor", "member": MEMBER}
    assert registered.of_type("gcp:secretmanager/secretIamMember:SecretIamMember") == {
        "access-secret-demo-project-hub": {"project": "demo-project", "secretId": "hub", **role},
        "access-secret-other-project-api": {"project": "other-project", "secretId": "api", **role},
    }
    assert "secretmanager" in apis(registered)


BUCKETS = (
    '{"data": {"bucket": "our-data", "mountPath": "/data"},'
    ' "base-models": {"bucket": "our-models", "mountPath": "/models/base", "folder": "llama/8b"},'
    ' "tokenizers": {"bucket": "our-models", "mountPath": "/models/tok", "folder": "tok"}}'
)


def test_read_only_buckets_are_mounted_so_and_by_name(deploy):
    found = task(deploy(readOnlyBuckets=BUCKETS))
    options = list(READ_ONLY_OPTIONS)
    assert found["volumes"][1:] == [
        {
            "name": "base-models",
            "gcs": {"bucket": "our-models", "readOnly": True, "mountOptions": [*options, "only-dir=llama/8b"]},
        },
        {"name": "data", "gcs": {"bucket": "our-data", "readOnly": True, "mountOptions": options}},
        {
            "name": "tokenizers",
            "gcs": {"bucket": "our-models", "readOnly": True, "mountOptions": [*options, "only-dir=tok"]},
        },
    ]
    assert found["containers"][0]["volumeMounts"] == [
        {"name": "checkpoint-volume", "mountPath": "/checkpoints"},
        {"name": "base-models", "mountPath": "/models/base"},
        {"name": "data", "mountPath": "/data"},
        {"name": "tokenizers", "mountPath": "/models/tok"},
    ]
    assert set(READ_ONLY_OPTIONS) < set(MOUNT_OPTIONS)


def test_each_read_only_bucket_is_granted_once_to_read(deploy):
    grants = deploy(readOnlyBuckets=BUCKETS).of_type("gcp:storage/bucketIAMMember:BucketIAMMember")
    viewer = {"role": "roles/storage.objectViewer", "member": MEMBER}
    assert {name: grant for name, grant in grants.items() if name.startswith("access-")} == {
        "access-bucket-base-models": {"bucket": "our-models", **viewer},
        "access-bucket-data": {"bucket": "our-data", **viewer},
    }


def test_a_disk_is_an_empty_dir_on_disk_and_a_preview_feature(deploy):
    registered = deploy(ephemeralDisk="100Gi", timeout="3600s")
    assert task(registered)["volumes"][-1] == {
        "name": "ephemeral-disk",
        "emptyDir": {"medium": "DISK", "sizeLimit": "100Gi"},
    }
    assert task(registered)["containers"][0]["volumeMounts"][-1] == {"name": "ephemeral-disk", "mountPath": "/scratch"}
    assert registered.only(JOB)["launchStage"] == "BETA"


@pytest.mark.parametrize(
    ("keys", "access"),
    [
        ({"network": "train"}, {"egress": "PRIVATE_RANGES_ONLY", "networkInterfaces": [{"network": "train"}]}),
        (
            {"subnetwork": "projects/host-project/regions/europe-west4/subnetworks/gpu", "egress": "ALL_TRAFFIC"},
            {
                "egress": "ALL_TRAFFIC",
                "networkInterfaces": [{"subnetwork": "projects/host-project/regions/europe-west4/subnetworks/gpu"}],
            },
        ),
        (
            {"network": "n", "subnetwork": "s", "networkTags": '["gpu", "train"]'},
            {
                "egress": "PRIVATE_RANGES_ONLY",
                "networkInterfaces": [{"network": "n", "subnetwork": "s", "tags": ["gpu", "train"]}],
            },
        ),
    ],
)
def test_the_network_is_direct_vpc_egress(deploy, keys, access):
    registered = deploy(**keys)
    assert task(registered)["vpcAccess"] == access
    assert "compute" in apis(registered)


def test_one_key_closes_buckets_repository_and_job(deploy):
    registered = deploy(kmsKey=KEY)
    assert {n: b["encryption"] for n, b in registered.of_type("gcp:storage/bucket:Bucket").items()} == {
        "checkpoints-bucket": {"defaultKmsKeyName": KEY},
        "image-source": {"defaultKmsKeyName": KEY},
    }
    assert registered.only("gcp:artifactregistry/repository:Repository")["kmsKeyName"] == KEY
    assert task(registered)["encryptionKey"] == KEY
    assert "cloudkms" in apis(registered)


def test_another_key_is_another_repository_so_the_image_is_built_anew(deploy):
    from infra.builder import BuildProvider

    plain, closed = (deploy(**keys).only("pulumi-python:dynamic/gpujob:BuiltImage") for keys in ({}, {"kmsKey": KEY}))
    assert closed == {**plain, "kmsKey": KEY}
    assert BuildProvider().diff("id", plain, closed).changes
    assert not BuildProvider().diff("id", plain, plain).changes


def test_the_projects_binary_authorization_policy_decides(deploy):
    registered = deploy(binaryAuthorization="true")
    assert registered.only(JOB)["binaryAuthorization"] == {"useDefault": True}
    assert "binaryauthorization" in apis(registered)


def test_folders_are_declared_only_where_they_are_wanted(deploy):
    bucket = "gcp:storage/bucket:Bucket", "checkpoints-bucket"
    assert deploy(hierarchicalNamespace="true").inputs[bucket]["hierarchicalNamespace"] == {"enabled": True}
    assert "hierarchicalNamespace" not in deploy().inputs[bucket]


def test_nothing_of_it_is_declared_where_nothing_was_set(deploy):
    registered = deploy()
    assert not {"encryptionKey", "vpcAccess"} & set(task(registered))
    assert "binaryAuthorization" not in registered.only(JOB)
    assert ("gpujob:infra:Access", "access") not in registered.inputs
    assert apis(registered) == {"artifactregistry", "cloudbuild", "iam", "logging", "monitoring", "run", "storage"}
