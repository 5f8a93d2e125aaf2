"""Every field of a job that the SDK knows is a setting, or is listed with the reason why it is none."""

import inspect
import re

import pytest
from pulumi_gcp import cloudrunv2

from infra.job_fields import FIXED, LEFT_OUT, SET_BY
from infra.settings import declared_keys


def fields_of(kind: type, prefix: str = "") -> set[str]:
    """Dotted names of all leaves below an arguments class, as the SDK's own signatures nest them."""
    found: set[str] = set()
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        below = re.search(r"Job[A-Za-z]*Args(?!Dict)\b", str(parameter.annotation))
        path = f"{prefix}{name}"
        found |= fields_of(getattr(cloudrunv2, below[0]), f"{path}.") if below else {path}
    return found


def walked() -> set[str]:
    from pulumi_gcp.cloudrunv2.job import JobArgs

    return fields_of(JobArgs)


def left_out(field: str) -> bool:
    return any(field == name or field.startswith(f"{name}.") for name in LEFT_OUT)


def test_the_walk_reaches_the_depths_of_the_sdk():
    assert "template.template.containers.envs.value_source.secret_key_ref.version" in walked()
    assert len(walked()) > 60


def test_every_field_is_decided_fixed_or_left_out_with_a_reason_and_none_twice():
    for field in walked():
        places = [field in SET_BY, field in FIXED, left_out(field)]
        assert places.count(True) == 1, field


def test_nothing_is_listed_that_the_sdk_does_not_know():
    fields = walked()
    assert {*SET_BY, *FIXED} <= fields
    assert [name for name in LEFT_OUT if not any(f == name or f.startswith(f"{name}.") for f in fields)] == []


@pytest.mark.parametrize("field", sorted(SET_BY))
def test_a_field_is_decided_by_settings_that_exist(field):
    assert {name for name in SET_BY[field] if not name.startswith("gcp:")} <= set(declared_keys())


def test_every_setting_about_the_job_decides_a_field():
    deciding = {name for names in SET_BY.values() for name in names}
    elsewhere = {
        "imageReaders": "the repository",
        **dict.fromkeys(("bucketRole", "softDeleteSeconds", "hierarchicalNamespace"), "the bucket"),
        **dict.fromkeys(("buildAccountName", "sourceBucketName"), "the build"),
        **dict.fromkeys(("gpuUsdPerHour", "maxExposureUsd", "trainingHours", "interruptionsPerDay"), "no resource"),
        **dict.fromkeys(("observability", "notificationEmails", "noProgressMinutes", "atRiskMinutes"), "the alerts"),
        "retriesLeft": "the alerts",
    }
    assert deciding | set(elsewhere) == {*declared_keys(), "gcp:project", "gcp:region"}


def test_what_the_program_sends_is_what_the_table_says_it_can(deploy):
    """With every setting used, the job's inputs hold each decided and fixed field, and nothing else."""
    job = deploy(
        secrets='{"TOKEN": "projects/demo-project/secrets/s/versions/1"}',
        readOnlyBuckets='{"data": {"bucket": "our-data", "mountPath": "/data"}}',
        ephemeralDisk="10Gi",
        network="default",
        subnetwork="default",
        networkTags='["gpu"]',
        kmsKey="projects/demo-project/locations/europe-west4/keyRings/r/cryptoKeys/k",
        binaryAuthorization="true",
    ).only("gcp:cloudrunv2/job:Job")
    assert sent(job) == {*SET_BY, *FIXED}


def sent(job: dict) -> set[str]:
    return set(leaves(job))


def leaves(tree: dict, prefix: str = "") -> dict[str, list]:
    """Dotted names, in Python's spelling, of every leaf of a job's inputs, with its values in order."""
    found: dict[str, list] = {}
    for name, value in tree.items():
        path = prefix + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        entries = value if isinstance(value, list) else [value]
        nested = [entry for entry in entries if isinstance(entry, dict)]
        if nested and not path.endswith(("labels", "limits")):
            for entry in nested:
                for field, values in leaves(entry, f"{path}.").items():
                    found.setdefault(field, []).extend(values)
        else:
            found.setdefault(path, []).extend(entries)
    return found


OTHERWISE = {
    "gpuType": {"gpuType": "nvidia-rtx-pro-6000", "cpu": "20", "memory": "80Gi"},
    "cpu": {"cpu": "6"},
    "memory": {"memory": "24Gi", "cpu": "6"},
    "timeout": {"timeout": "3600s"},
    "maxRetries": {"maxRetries": "5"},
    "taskCount": {"taskCount": "4"},
    "parallelism": {"parallelism": "2", "taskCount": "4"},
    "requireGpu": {"requireGpu": "false"},
    "workload": {"workload": "countdown"},
    "workloadArgs": {"workloadArgs": '["--steps", "9"]'},
    "env": {"env": '{"A": "1"}'},
    "secrets": {"secrets": '{"TOKEN": "projects/demo-project/secrets/s/versions/1"}'},
    "labels": {"labels": '{"team": "a"}'},
    "mountPath": {"mountPath": "/data"},
    "readOnlyBuckets": {"readOnlyBuckets": '{"data": {"bucket": "our-data", "mountPath": "/data"}}'},
    "ephemeralDisk": {"ephemeralDisk": "10Gi"},
    "ephemeralDiskPath": {"ephemeralDiskPath": "/cache", "ephemeralDisk": "10Gi"},
    "network": {"network": "default"},
    "subnetwork": {"subnetwork": "default"},
    "networkTags": {"networkTags": '["gpu"]', "network": "default"},
    "egress": {"egress": "ALL_TRAFFIC", "network": "default"},
    "kmsKey": {"kmsKey": "projects/demo-project/locations/europe-west4/keyRings/r/cryptoKeys/k"},
    "binaryAuthorization": {"binaryAuthorization": "true"},
    "image": {"image": "europe-west4-docker.pkg.dev/demo-project/gpujob/worker@sha256:" + "a" * 64},
    "bucketName": {"bucketName": "another-bucket"},
    "accountName": {"accountName": "another-account"},
    "jobName": {"jobName": "another-job"},
    "repositoryName": {"repositoryName": "another"},
    "nameSuffix": {"nameSuffix": "b"},
    "disposable": {"disposable": "true"},
}
"""Each setting that decides something about the job, set otherwise, with what it needs beside it."""


def test_every_setting_that_decides_a_field_is_tried_otherwise():
    assert set(OTHERWISE) == {n for names in SET_BY.values() for n in names if not n.startswith("gcp:")}


@pytest.mark.parametrize("setting", sorted(OTHERWISE))
def test_a_setting_changes_the_fields_that_the_table_says_it_decides_and_no_other(deploy, setting):
    kind = "gcp:cloudrunv2/job:Job"
    before, after = leaves(deploy().only(kind)), leaves(deploy(**OTHERWISE[setting]).only(kind))
    changed = {field for field in before.keys() | after.keys() if before.get(field) != after.get(field)}
    decided = {field for field, names in SET_BY.items() if set(names) & set(OTHERWISE[setting])}
    assert changed
    assert changed <= decided
