"""What Settings refuses, and that each refusal names the key, what is allowed and the way out."""

import json
from dataclasses import replace

import pytest

from infra.accelerators import CATALOGUE
from infra.problems import SettingsError
from infra.rules import parse
from infra.settings import Settings

DIGEST = "sha256:" + "a" * 64


def settings(project="demo-project", region="europe-west4", **values) -> Settings:
    raw = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}
    return parse(raw, project=project, region=region)


def refusal(**values) -> str:
    with pytest.raises(SettingsError) as caught:
        settings(**values)
    return str(caught.value)


def test_the_defaults_are_what_the_tutorial_types():
    stack = settings()
    assert (stack.job, stack.account, stack.bucket) == (
        "gpu-resilient-job",
        "gpu-job-sa",
        "gpu-checkpoints-demo-project",
    )
    assert (stack.gpu_type, stack.cpu, stack.memory) == ("nvidia-l4", "4", "16Gi")
    assert (stack.timeout_s, stack.max_retries, stack.mount_path) == (12 * 3600, 3, "/checkpoints")


REFUSED = [
    ("an unknown GPU", {"gpuType": "nvidia-t4"}, ["gpujob:gpuType", "nvidia-t4", "nvidia-l4, nvidia-rtx-pro-6000"]),
    (
        "a region without the GPU",
        {"region": "us-east4", "gpuType": "nvidia-rtx-pro-6000", "cpu": "20", "memory": "80Gi"},
        ["gcp:region", "us-east4", "europe-west4", "there is nvidia-l4", "pulumi config set gcp:region us-central1"],
    ),
    (
        "a region without any GPU",
        {"region": "europe-west3"},
        ["gcp:region", "europe-west3 does not offer nvidia-l4", "pulumi config set gcp:region europe-west4"],
    ),
    ("too few vCPU", {"cpu": "2"}, ["gpujob:cpu", "'2'", "4, 6, 8", 'gpujob:cpu: "4"']),
    ("too many vCPU", {"cpu": "16"}, ["gpujob:cpu", "4, 6, 8"]),
    ("vCPU in another spelling", {"cpu": "4000m"}, ["gpujob:cpu", "4000m", 'gpujob:cpu: "4"']),
    (
        "an odd number of vCPU beside an RTX",
        {"gpuType": "nvidia-rtx-pro-6000", "cpu": "21", "memory": "80Gi"},
        ["gpujob:cpu", "20, 22"],
    ),
    ("too little memory", {"memory": "8Gi"}, ["gpujob:memory", "8Gi", "16Gi to 32Gi", "gpujob:memory: 16Gi"]),
    ("too much memory", {"memory": "64Gi", "cpu": "8"}, ["gpujob:memory", "16Gi to 32Gi"]),
    ("memory in another spelling", {"memory": "16G"}, ["gpujob:memory", "whole gibibytes"]),
    ("more memory than its vCPU may have", {"memory": "24Gi"}, ["gpujob:memory", "4Gi each", 'gpujob:cpu: "6"']),
    ("no retries", {"maxRetries": 0}, ["gpujob:maxRetries", "maintenance", "1 to 10", "gpujob:maxRetries: 3"]),
    ("too many retries", {"maxRetries": 11}, ["gpujob:maxRetries", "1 to 10"]),
    ("retries as a word", {"maxRetries": "three"}, ["gpujob:maxRetries", "not a whole number"]),
    ("a timeout of 200 h", {"timeout": "720000s"}, ["gpujob:timeout", "200 h", "168 h", "604800s"]),
    ("a timeout in hours", {"timeout": "12h"}, ["gpujob:timeout", "'12h'", "gpujob:timeout: 43200s"]),
    ("a timeout in minutes", {"timeout": "90m"}, ["gpujob:timeout", "gpujob:timeout: 5400s"]),
    ("a timeout without a unit", {"timeout": "7200"}, ["gpujob:timeout", "gpujob:timeout: 7200s"]),
    ("no time at all", {"timeout": "0s"}, ["gpujob:timeout"]),
    ("no tasks", {"taskCount": 0}, ["gpujob:taskCount", "1 to 10000"]),
    (
        "more tasks at a time than there are",
        {"taskCount": 2, "parallelism": 3},
        ["gpujob:parallelism", "of 2", "gpujob:parallelism: 2"],
    ),
    (
        "an image by tag",
        {"image": "europe-west4-docker.pkg.dev/p/gpujob/worker:latest"},
        ["gpujob:image", ":latest", "a tag can be moved", "pkg.dev/p/gpujob/worker@sha256:"],
    ),
    ("an image without a host", {"image": f"worker@{DIGEST}"}, ["gpujob:image"]),
    *(
        (
            f"an image from {host}",
            {"image": f"{host}/team/worker@{DIGEST}"},
            [
                "gpujob:image",
                f"'{host}'",
                "[REGION-]docker.pkg.dev",
                "[REGION.]gcr.io",
                "docker.io",
                "remote repository",
            ],
        )
        for host in (
            "ghcr.io",
            "quay.io",
            "registry.example.com:5000",
            "library",
            "docker.n8n.io",
            "eugcr.io",
            "a.b.gcr.io",
            "europe-west4-docker.pkg.dev.example.com",
            "example.com",
            "docker.pkg.github.com",
            "docker.io:443",
        )
    ),
    ("a label in upper case", {"labels": {"Team": "a"}}, ["gpujob:labels", "'Team'", "a-z"]),
    ("a label value with a space", {"labels": {"team": "a b"}}, ["gpujob:labels", "team: 'a b'"]),
    ("a label that says whose it is", {"labels": {"gpujob-stack": "x"}}, ["gpujob:labels", "set by the program"]),
    ("a label that is too long", {"labels": {"team": "a" * 64}}, ["gpujob:labels"]),
    ("a job name that is too long", {"jobName": "a" * 50}, ["gpujob:jobName", "50 characters", "1 to 49"]),
    (
        "a name that only its suffix makes too long",
        {"accountName": "a" * 25, "nameSuffix": "research"},
        ["gpujob:accountName", "34 characters", "nameSuffix research", "6 to 30"],
    ),
    ("an account name that is too short", {"accountName": "gpu"}, ["gpujob:accountName", "6 to 30"]),
    ("a bucket name in upper case", {"bucketName": "Checkpoints"}, ["gpujob:bucketName", "3 to 63"]),
    ("a bucket named after Google", {"bucketName": "google-things"}, ["gpujob:bucketName"]),
    ("a suffix with a dash first", {"nameSuffix": "-b"}, ["gpujob:nameSuffix"]),
    ("a variable that Cloud Run sets", {"env": {"CLOUD_RUN_JOB": "x"}}, ["gpujob:env", "CLOUD_RUN_JOB"]),
    ("a variable that the job sets", {"env": {"CHECKPOINT_DIR": "/x"}}, ["gpujob:env", "CHECKPOINT_DIR"]),
    ("a variable's name with a dash", {"env": {"A-B": "x"}}, ["gpujob:env", "'A-B'"]),
    ("a variable that is too large", {"env": {"A": "x" * 32769}}, ["gpujob:env", "32769 bytes"]),
    ("a mount over the system", {"mountPath": "/proc/x"}, ["gpujob:mountPath", "/checkpoints"]),
    ("a relative mount", {"mountPath": "checkpoints"}, ["gpujob:mountPath", "absolute path"]),
    ("a role that is too large", {"bucketRole": "roles/owner"}, ["gpujob:bucketRole", "roles/storage.objectUser"]),
    ("a soft delete of an hour", {"softDeleteSeconds": 3600}, ["gpujob:softDeleteSeconds", "604800"]),
    ("everybody as reader", {"imageReaders": ["allUsers"]}, ["gpujob:imageReaders", "public"]),
    ("a price that is no number", {"gpuUsdPerHour": "cheap"}, ["gpujob:gpuUsdPerHour", "0.67"]),
    ("a switch that is neither on nor off", {"disposable": "yes"}, ["gpujob:disposable", "neither true nor false"]),
    ("arguments that are no list", {"workloadArgs": "--steps 5"}, ["gpujob:workloadArgs", "not a list"]),
    ("a list in a list", {"workloadArgs": [["a"]]}, ["gpujob:workloadArgs", "a text is expected"]),
    ("labels that are no map", {"labels": ["a"]}, ["gpujob:labels", "not a map"]),
    ("a workload with a path", {"workload": "../x"}, ["gpujob:workload", "language_model"]),
    ("a key with a typing mistake", {"gpuTyp": "x"}, ["gpujob:gpuTyp", "did you mean gpujob:gpuType?", "config rm"]),
    ("a key of somebody else", {"zzz": "x"}, ["gpujob:zzz", "no such key", "docs/configuration.md"]),
    (
        "a secret that moves",
        {"secrets": {"TOKEN": "projects/demo-project/secrets/t/versions/latest"}},
        ["gpujob:secrets", "TOKEN", "moves", "change the number", "secrets/api-token/versions/1"],
    ),
    (
        "a secret without a version",
        {"secrets": {"TOKEN": "projects/demo-project/secrets/t"}},
        ["gpujob:secrets", "not which version"],
    ),
    ("a secret itself", {"secrets": {"TOKEN": "hunter2"}}, ["gpujob:secrets", "not a version of a secret"]),
    (
        "a variable both plain and secret",
        {"env": {"A": "x"}, "secrets": {"A": "projects/demo-project/secrets/t/versions/1"}},
        ["gpujob:secrets", "set by env as well"],
    ),
    (
        "a secret under a name of the job's own",
        {"secrets": {"MAX_RETRIES": "projects/demo-project/secrets/t/versions/1"}},
        ["gpujob:secrets", "MAX_RETRIES is set by Cloud Run or by the job itself"],
    ),
    ("tags without a network", {"networkTags": ["gpu"]}, ["gpujob:networkTags", "neither network nor subnetwork"]),
    ("egress without a network", {"egress": "ALL_TRAFFIC"}, ["gpujob:egress", "neither network nor subnetwork"]),
    ("an unknown egress", {"network": "n", "egress": "ALL"}, ["gpujob:egress", "PRIVATE_RANGES_ONLY or ALL_TRAFFIC"]),
    ("a network in upper case", {"network": "Default"}, ["gpujob:network", "'Default' is not a network"]),
    (
        "a subnetwork elsewhere",
        {"subnetwork": "projects/host-project/regions/us-east4/subnetworks/s"},
        ["gpujob:subnetwork", "in us-east4, the job in europe-west4", "regions/europe-west4/subnetworks/s"],
    ),
    (
        "a key elsewhere",
        {"kmsKey": "projects/k-project/locations/global/keyRings/r/cryptoKeys/k"},
        ["gpujob:kmsKey", "the key is in global", "locations/europe-west4/keyRings"],
    ),
    ("a key by its short name", {"kmsKey": "k"}, ["gpujob:kmsKey", "not a key", "keyRings/RING/cryptoKeys/KEY"]),
    (
        "a mounted bucket without a path",
        {"readOnlyBuckets": {"data": {"bucket": "our-data"}}},
        ["gpujob:readOnlyBuckets", "not right under data (mountPath)"],
    ),
    (
        "a mounted bucket as a text",
        {"readOnlyBuckets": {"data": "our-data"}},
        ["gpujob:readOnlyBuckets", "under data", "bucket and mountPath are expected"],
    ),
    (
        "a mounted bucket by its address",
        {"readOnlyBuckets": {"data": {"bucket": "gs://our-data", "mountPath": "/data"}}},
        ["gpujob:readOnlyBuckets", "without gs://"],
    ),
    (
        "the checkpoint bucket mounted twice",
        {"readOnlyBuckets": {"data": {"bucket": "gpu-checkpoints-demo-project", "mountPath": "/data"}}},
        ["gpujob:readOnlyBuckets", "this stack's checkpoint bucket"],
    ),
    (
        "a volume that bears the checkpoints' name",
        {"readOnlyBuckets": {"checkpoint-volume": {"bucket": "our-data", "mountPath": "/data"}}},
        ["gpujob:readOnlyBuckets", "cannot name a volume"],
    ),
    (
        "a mount inside another",
        {"readOnlyBuckets": {"data": {"bucket": "our-data", "mountPath": "/checkpoints/data"}}},
        ["gpujob:readOnlyBuckets", "/checkpoints/data and /checkpoints lie within one another"],
    ),
    (
        "a disk on the checkpoints",
        {"ephemeralDisk": "10Gi", "ephemeralDiskPath": "/checkpoints"},
        ["gpujob:ephemeralDiskPath", "lie within one another"],
    ),
    ("a disk in gigabytes", {"ephemeralDisk": "10GB"}, ["gpujob:ephemeralDisk", "gpujob:ephemeralDisk: 10Gi"]),
    (
        "an execution that could cost too much",
        {"maxExposureUsd": "20"},
        ["gpujob:maxExposureUsd", "50.23 USD", "12 h x 4 attempts x 1 task x 1.05 USD/h", "20 USD", "timeout: 17200s"],
    ),
    (
        "a limit that no timeout could keep",
        {"maxExposureUsd": "0.1"},
        ["gpujob:maxExposureUsd", 'gpujob:maxExposureUsd: "50.23"'],
    ),
    ("a limit that is no number", {"maxExposureUsd": "20 USD"}, ["gpujob:maxExposureUsd", "a number like 100"]),
    ("a training of no time", {"trainingHours": "0"}, ["gpujob:trainingHours"]),
    ("an interruption every minute", {"interruptionsPerDay": "1440"}, ["gpujob:interruptionsPerDay", "at most 24"]),
    (
        "attempts that end before training begins",
        {"trainingHours": "1", "timeout": "60s"},
        ["gpujob:timeout", "first new step"],
    ),
    ("no project", {"project": ""}, ["gcp:project", "not set", "pulumi config set gcp:project"]),
    (
        "the placeholder of the stack file as project",
        {"project": "YOUR-PROJECT-ID"},
        ["gcp:project", "YOUR-PROJECT-ID", "pulumi config set gcp:project"],
    ),
    ("no region", {"region": ""}, ["gcp:region", "not set", "pulumi config set gcp:region"]),
]


@pytest.mark.parametrize(("values", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refuses(values, said):
    message = refusal(**values)
    for words in said:
        assert words in message, message
    assert "allowed:" in message
    assert "nothing was created or changed" in message
    assert "in Pulumi.<stack>.yaml" in message or "run\n" in message


@pytest.mark.parametrize("values", [case[1] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_says_one_thing_about_one_mistake(values):
    assert refusal(**values).startswith("1 setting of this stack cannot work")


def test_says_everything_at_once():
    message = refusal(gpuType="nvidia-t4", maxRetries=0, timeout="12h")
    assert message.startswith("3 settings")
    assert all(name in message for name in ("gpuType", "maxRetries", "timeout"))


@pytest.mark.parametrize(
    ("timeout", "said"),
    [
        ("3600s", None),
        ("3601s", "may need preview access"),
        ("43200s", "may need preview"),
        ("43201s", "IS ABOVE THE 12 h"),
    ],
)
def test_a_timeout_above_what_is_generally_available_is_warned_about(timeout, said):
    warnings = settings(timeout=timeout, disposable=True).warnings
    assert [said in w for w in warnings] == ([True] if said else [])


def test_beta_is_declared_exactly_where_a_preview_feature_is_used():
    assert settings(timeout="3600s").launch_stage is None
    assert settings(timeout="3601s").launch_stage == "BETA"


def test_a_region_by_invitation_is_warned_about():
    assert any("invited projects only" in w for w in settings(region="us-central1").warnings)


RTX = {"gpuType": "nvidia-rtx-pro-6000", "cpu": "20", "memory": "80Gi"}


@pytest.fixture
def unpriced(monkeypatch):
    """GPUs whose list price is not known."""
    gpus = {name: replace(gpu, gpu_usd_per_s=None) for name, gpu in CATALOGUE.items()}
    monkeypatch.setattr("infra.settings.CATALOGUE", gpus)


def test_a_gpu_without_a_known_price_gives_hours_and_says_so(unpriced):
    stack = settings(**RTX)
    assert stack.exposure.usd is None
    assert any("gpujob:gpuUsdPerHour" in w for w in stack.warnings)
    priced = settings(**RTX, gpuUsdPerHour="2")
    assert priced.exposure.usd == pytest.approx(48 * (2 + (20 * 0.000018 + 80 * 0.000002) * 3600), abs=0.01)


def test_a_limit_without_a_price_is_refused(unpriced):
    message = refusal(**RTX, maxExposureUsd="20")
    for words in ("gpujob:gpuUsdPerHour", "no price of nvidia-rtx-pro-6000", "cannot be held"):
        assert words in message


@pytest.mark.parametrize(("keys", "usd_per_hour"), [({}, 1.0465), (RTX, 3.1868)], ids=["nvidia-l4", "rtx"])
def test_an_hour_of_the_smallest_task_at_list_prices(keys, usd_per_hour):
    assert settings(**keys).usd_per_hour == pytest.approx(usd_per_hour, abs=0.0001)


def test_the_exposure_counts_every_attempt_of_every_task():
    exposure = settings(taskCount=2).exposure
    assert exposure.gpu_hours == 12 * 4 * 2
    assert exposure.usd == pytest.approx(96 * 1.0465, rel=1e-3)


def test_a_suffix_reaches_every_name_and_the_stack_none():
    stack = settings(nameSuffix="b")
    names = (stack.job, stack.account, stack.build_account, stack.bucket, stack.source_bucket, stack.repository)
    assert all(name.endswith("-b") for name in names)


def test_numbers_in_a_list_of_texts_are_taken_as_typed():
    assert settings(workloadArgs=["--steps", 60, True]).workload_args == ("--steps", "60", "true")


def test_a_digest_is_taken_and_nothing_is_built_for_it():
    stack = settings(image=f"europe-west4-docker.pkg.dev/other/gpujob/worker@{DIGEST}")
    assert not stack.builds_image
    assert not stack.owns_repository


def test_a_digest_out_of_the_own_repository_keeps_the_repository():
    assert settings(image=f"europe-west4-docker.pkg.dev/demo-project/gpujob/worker@{DIGEST}").owns_repository


def test_the_timeout_that_is_proposed_fits_the_limit():
    assert settings(maxExposureUsd="20", timeout="17200s").exposure.usd <= 20


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"network": "n", "egress": "ALL_TRAFFIC"}, "Private Google Access"),
        ({"ephemeralDisk": "100Gi"}, "above the 10Gi"),
        ({"trainingHours": "100"}, "raise maxRetries"),
    ],
)
def test_what_works_but_deserves_a_second_look_is_warned_about(values, said):
    assert [said in w for w in settings(timeout="3600s", disposable=True, **values).warnings] == [True]
    assert settings(timeout="3600s", disposable=True).warnings == ()


def test_a_secret_of_the_own_project_is_named_shortly_and_another_in_full():
    versions = settings(
        secrets={"B": "projects/demo-project/secrets/b/versions/2", "A": "projects/123/secrets/a/versions/1"}
    ).secret_versions
    assert [version.seen_from("demo-project") for version in versions.values()] == ["projects/123/secrets/a", "b"]
