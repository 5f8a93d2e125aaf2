"""Whatever a stack file says: a job that the live API accepts, or an error that names a key. Nothing in between."""

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from infra.job import GpuJobArgs, worker_env
from infra.problems import SettingsError
from infra.rules import parse
from infra.settings import Settings, declared_keys

NUMBER = st.integers(-2, 12).map(str)
NAME = st.one_of(st.from_regex(r"[a-zA-Z0-9-]{0,60}", fullmatch=True), st.sampled_from(["gpu-job-sa", "b", "google"]))
TEXT = st.one_of(st.sampled_from(["", "x", "true", "4"]), st.text(max_size=8))
MAP = st.dictionaries(st.one_of(TEXT, NAME, st.just("CLOUD_RUN_JOB")), st.one_of(TEXT, NAME), max_size=3)
PATH = st.sampled_from(
    [
        "/checkpoints",
        "/checkpoints/a",
        "/scratch",
        "/",
        "/dev/x",
        "/proc",
        "/sys/a",
        "a",
        "/a/",
        "/a/../b",
        "/a b",
        "/app",
    ]
)
SECRET = st.sampled_from(
    ["projects/demo-project/secrets/s/versions/1", "projects/demo-project/secrets/s/versions/latest", "s", ""]
)
BUCKET = st.fixed_dictionaries(
    {"bucket": NAME, "mountPath": PATH}, optional={"folder": st.sampled_from(["a/b", "/a", "a,b", ""]), "x": TEXT}
)
KEY = "projects/key-project/locations/europe-west4/keyRings/r/cryptoKeys/k"

VALUES = {
    "gpuType": st.sampled_from(["nvidia-l4", "nvidia-rtx-pro-6000", "nvidia-t4"]),
    "cpu": st.sampled_from(["4", "6", "8", "5", "20", "21", "22", "30", "32", "4000m", ""]),
    "memory": st.sampled_from(["16Gi", "24Gi", "32Gi", "33Gi", "80Gi", "120Gi", "016Gi", "16G", "16384Mi", ""]),
    "timeout": st.one_of(st.integers(0, 700_000).map("{}s".format), st.sampled_from(["12h", "1", "", "1.5s", "1٣s"])),
    "maxRetries": NUMBER,
    "taskCount": st.integers(-1, 10_002).map(str),
    "parallelism": st.integers(-1, 10_002).map(str),
    "disposable": st.sampled_from(["true", "false", "True", ""]),
    "softDeleteSeconds": st.sampled_from(["0", "1", "604800", "7776000", "7776001", "x"]),
    "mountPath": PATH,
    "image": st.builds(
        "{}{}".format,
        st.sampled_from(
            ["a.b/c", "docker.io/a/b", "gcr.io/p/i", "eu.gcr.io/p/i", "us-docker.pkg.dev/p/r/i", "ghcr.io/a"]
        ),
        st.sampled_from(["@sha256:" + "0" * 64, "@sha256:00", ":latest", ""]),
    ),
    "env": MAP.map(json.dumps),
    "labels": MAP.map(json.dumps),
    "secrets": st.dictionaries(st.one_of(NAME, st.sampled_from(["TOKEN", "PORT"])), SECRET, max_size=2).map(json.dumps),
    "readOnlyBuckets": st.one_of(MAP, st.dictionaries(NAME, BUCKET, max_size=2)).map(json.dumps),
    "ephemeralDisk": st.sampled_from(["", "10Gi", "0Gi", "10G", "99999Gi"]),
    "ephemeralDiskPath": PATH,
    "network": st.sampled_from(["", "default", "projects/host-project/global/networks/shared", "Default"]),
    "subnetwork": st.sampled_from(["", "default", "projects/host-project/regions/europe-west4/subnetworks/a", "a/b"]),
    "networkTags": st.sampled_from(["[]", '["gpu"]', '["GPU"]', "gpu"]),
    "egress": st.sampled_from(["", "ALL_TRAFFIC", "PRIVATE_RANGES_ONLY", "all-traffic"]),
    "kmsKey": st.sampled_from(["", KEY, KEY.replace("europe-west4", "europe-west1"), "key"]),
    "binaryAuthorization": st.sampled_from(["true", "false", "x"]),
    "hierarchicalNamespace": st.sampled_from(["true", "false", "x"]),
    "maxExposureUsd": st.sampled_from(["", "5", "10000", "-1", "x"]),
    "trainingHours": st.sampled_from(["", "24", "0", "1e3", "x"]),
    "interruptionsPerDay": st.sampled_from(["1", "0", "24", "25", "", "x"]),
    "gpuUsdPerHour": st.sampled_from(["", "0.67", "x"]),
    "nameSuffix": st.one_of(st.just(""), NAME),
    **dict.fromkeys(("jobName", "accountName", "bucketName", "repositoryName"), NAME),
    "zzz": TEXT,
}
REGION = st.sampled_from(["europe-west4", "us-central1", "asia-south2", "us-east4", "europe-west3", ""])


def refusals_of_the_live_api(stack: Settings) -> list[str]:
    """What Cloud Run is known to refuse, written down a second time and from the job's side."""
    args = GpuJobArgs.of(stack, image="i", service_account="s", bucket="b")
    cpu, gib = int(args.cpu), int(args.memory.removesuffix("Gi"))
    l4 = args.gpu_type == "nvidia-l4"
    names = sorted([*worker_env(args), *args.secrets])
    paths = [mount.mount_path for mount in args.volumes.mounted()]
    rules = {
        "cpu": cpu in ((4, 6, 8) if l4 else range(20, 31, 2)),
        "memory": (16 <= gib <= 32 if l4 else 80 <= gib <= 120) and gib <= 4 * cpu,
        "timeout": 1 <= args.timeout_s <= 604_800,
        "retries": 1 <= args.max_retries <= 10,
        "tasks": 1 <= args.parallelism <= args.task_count <= 10_000,
        "mounts": all(re.fullmatch("(?!/(dev|proc|sys)(/|$))/.+", p) for p in paths) and len(paths) == len({*paths}),
        "env": all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", n) and not n.startswith("CLOUD_RUN_") for n in names),
        "env once": len(names) == len({*names}) and names == sorted(names),
        "job name": re.fullmatch("[a-z]([a-z0-9-]{0,61}[a-z0-9])?", args.job),
        "account": re.fullmatch("[a-z][a-z0-9-]{4,28}[a-z0-9]", stack.account),
        "bucket": re.fullmatch("[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]", stack.bucket) and "google" not in stack.bucket,
        "labels": all(re.fullmatch("[a-z][a-z0-9_-]{0,62}", n) for n in args.labels),
        "label values": all(re.fullmatch("[a-z0-9_-]{0,63}", v) for v in args.labels.values()),
        "launch stage": (args.launch_stage == "BETA") == (args.timeout_s > 3600 or bool(args.volumes.disk)),
        "disk": re.fullmatch("([1-9][0-9]*Gi)?", args.volumes.disk),
        "secrets": all(version.version.isdigit() for version in args.secrets.values()),
        "network": not args.vpc or (args.vpc.network or args.vpc.subnetwork),
        "key": not args.kms_key or f"/locations/{stack.region}/" in args.kms_key,
        "exposure": not stack.max_exposure_usd or stack.exposure.usd <= float(stack.max_exposure_usd),
        "image": not stack.image or "@sha256:" in stack.image,
        "registry": re.match(r"$|([a-z]+\.)?gcr\.io/|([a-z]+-)?docker\.pkg\.dev/|docker\.io/", stack.image),
    }
    return [name for name, kept in rules.items() if not kept]


def outcome(values, project="demo-project", region="europe-west4") -> Settings | SettingsError:
    try:
        return parse(values, project=project, region=region)
    except SettingsError as error:
        return error


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.fixed_dictionaries({}, optional=VALUES), REGION, st.sampled_from(["demo-project", "YOUR-PROJECT-ID", ""]))
def test_a_configuration_gives_a_job_that_the_api_accepts_or_an_error_that_names_a_key(values, region, project):
    result = outcome(values, project, region)
    if isinstance(result, Settings):
        assert refusals_of_the_live_api(result) == []
        return
    known = {f"gpujob:{name}" for name in declared_keys()} | {"gcp:project", "gcp:region", "gpujob:zzz"}
    assert result.problems
    assert {problem.key for problem in result.problems} <= known
    assert all(problem.allowed and problem.paste for problem in result.problems)


RIGHT = {
    "gpuType": st.sampled_from(["nvidia-l4", "nvidia-rtx-pro-6000"]),
    "cpu": st.sampled_from(["4", "8", "20", "30"]),
    "memory": st.sampled_from(["16Gi", "32Gi", "80Gi", "120Gi"]),
    "timeout": st.sampled_from(["600s", "3600s", "43200s", "604800s"]),
    "taskCount": st.sampled_from(["1", "2", "10000"]),
    "parallelism": st.sampled_from(["1", "2"]),
    "secrets": st.just(json.dumps({"TOKEN": "projects/demo-project/secrets/s/versions/1"})),
    "env": st.sampled_from(['{"A": "1"}', '{"TOKEN": "x"}']),
    "readOnlyBuckets": st.sampled_from(["/data", "/checkpoints/data", "/scratch"]).map(
        lambda path: json.dumps({"data": {"bucket": "our-data", "mountPath": path}})
    ),
    "ephemeralDisk": st.just("10Gi"),
    "network": st.just("default"),
    "networkTags": st.just('["gpu"]'),
    "egress": st.just("ALL_TRAFFIC"),
    "kmsKey": st.just(KEY),
    "maxExposureUsd": st.sampled_from(["1", "100", "1000000"]),
    "trainingHours": st.just("24"),
    "nameSuffix": st.just("b"),
}
"""Values that are right by themselves: what remains are the rules between keys."""


def test_values_that_are_right_by_themselves_meet_only_the_rules_between_keys():
    accepted: list[Settings] = []

    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(st.fixed_dictionaries({}, optional=RIGHT), st.sampled_from(["europe-west4", "us-east4"]))
    def tried(values, region):
        result = outcome(values, region=region)
        if isinstance(result, Settings):
            assert refusals_of_the_live_api(result) == []
            accepted.append(result)

    tried()
    assert len(accepted) >= 20, "the rules refuse nearly everything: this test shows nothing"
    assert any(stack.secrets and stack.read_only_buckets for stack in accepted)


ONE = st.sampled_from(sorted(set(VALUES) - {"zzz"})).flatmap(lambda name: st.tuples(st.just(name), VALUES[name]))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(ONE)
def test_one_value_beside_defaults_is_accepted_or_blamed_on_its_own_key(name_and_value):
    name, value = name_and_value
    result = outcome({name: value})
    if isinstance(result, Settings):
        assert refusals_of_the_live_api(result) == []
        return
    # Another GPU wants other cpu and memory, and a suffix is judged by the names that it ends.
    others = {
        "gpuType": {"gpujob:cpu", "gpujob:memory"},
        "maxExposureUsd": {"gpujob:gpuUsdPerHour"},
        "nameSuffix": {f"gpujob:{key}" for key in declared_keys() if key.endswith("Name")},
    }
    assert {problem.key for problem in result.problems} <= {f"gpujob:{name}"} | others.get(name, set())
