"""The job that is registered, whole, held against the command with which the tutorial deploys it.

gcloud beta run jobs deploy gpu-resilient-job --source . --gpu=1 --gpu-type=nvidia-l4 --no-gpu-zonal-redundancy
    --max-retries=3 --task-timeout=168h --service-account=gpu-job-sa@PROJECT.iam.gserviceaccount.com
    --add-volume=name=checkpoint-volume,type=cloud-storage,bucket=gpu-checkpoints-PROJECT
    --add-volume-mount=volume=checkpoint-volume,mount-path=/checkpoints
"""

from copy import deepcopy

from infra.volumes import MOUNT_OPTIONS
from tests.infra.conftest import DIGEST

JOB = "gcp:cloudrunv2/job:Job"

AS_THE_TUTORIAL_ASKS = {
    "project": "demo-project",
    "location": "europe-west4",
    "name": "gpu-resilient-job",
    "template": {
        "template": {
            "gpuZonalRedundancyDisabled": True,
            "maxRetries": 3,
            "timeout": "604800s",
            "serviceAccount": "gpu-job-sa@demo-project.iam.gserviceaccount.com",
            "nodeSelector": {"accelerator": "nvidia-l4"},
            "containers": [
                {
                    "image": "built from --source .",
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                    "volumeMounts": [{"name": "checkpoint-volume", "mountPath": "/checkpoints"}],
                }
            ],
            "volumes": [{"name": "checkpoint-volume", "gcs": {"bucket": "gpu-checkpoints-demo-project"}}],
        },
    },
}
"""What the command says, flag by flag, in the resource's words; what it leaves to defaults is not here."""


def improved(job: dict) -> dict:
    """Each line is a deliberate difference; docs/from-the-tutorial.md gives the reason under the same words."""
    job = deepcopy(job)
    template = job["template"]
    task = template["template"]
    container, volume = task["containers"][0], task["volumes"][0]
    # image by digest
    container["image"] = f"europe-west4-docker.pkg.dev/demo-project/gpujob/worker@{DIGEST}"
    # the timeout that the tutorial's text names, 12 h, not its command's 168 h
    task["timeout"] = "43200s"
    # the launch stage that such a timeout needs (`gcloud beta`)
    job["launchStage"] = "BETA"
    # cpu and memory spelled out
    container["resources"]["limits"] |= {"cpu": "4", "memory": "16Gi"}
    # one task, one at a time: quota is checked against parallelism
    template |= {"taskCount": 1, "parallelism": 1}
    # the execution environment that GPUs and mounts need
    task["executionEnvironment"] = "EXECUTION_ENVIRONMENT_GEN2"
    # the mount remembers nothing, and belongs to the worker's user
    volume["gcs"] |= {"readOnly": False, "mountOptions": list(MOUNT_OPTIONS)}
    # command and workload
    container |= {"commands": ["python", "-m", "app"], "args": ["language_model"]}
    # the worker's contract
    container["envs"] = [
        {"name": "CHECKPOINT_DIR", "value": "/checkpoints"},
        {"name": "MAX_RETRIES", "value": "3"},
        {"name": "REQUIRED_GPU", "value": "nvidia-l4"},
        {"name": "TASK_TIMEOUT_S", "value": "43200"},
    ]
    # labels
    template["labels"] = {"app": "gpujob"}
    job["labels"] = {"app": "gpujob", "gpujob-stack": "any"}
    # protected unless disposable
    job["deletionProtection"] = True
    return job


def test_the_whole_job_is_what_the_tutorial_asks_for_plus_the_named_improvements(deploy):
    assert deploy().only(JOB) == improved(AS_THE_TUTORIAL_ASKS)


def test_every_improvement_is_named_in_the_docs():
    from pathlib import Path

    source = Path(__file__).read_text()
    names = [
        line.strip().removeprefix("# ").split(":")[0]
        for line in source.split("def improved")[1].split("return job")[0].splitlines()
        if line.strip().startswith("# ")
    ]
    page = (Path(__file__).parents[2] / "docs/from-the-tutorial.md").read_text()
    assert len(names) == 11
    assert [name for name in names if name not in page] == []


def test_a_short_timeout_leaves_the_launch_stage_alone(deploy):
    assert "launchStage" not in deploy(timeout="3600s").only(JOB)


def test_the_rtx_job_differs_in_gpu_cpu_and_memory_only(deploy):
    l4 = deploy().only(JOB)
    rtx = deploy(gpuType="nvidia-rtx-pro-6000", cpu="20", memory="80Gi").only(JOB)
    task = l4["template"]["template"]
    task["nodeSelector"]["accelerator"] = "nvidia-rtx-pro-6000"
    task["containers"][0]["resources"]["limits"] |= {"cpu": "20", "memory": "80Gi"}
    task["containers"][0]["envs"][2]["value"] = "nvidia-rtx-pro-6000"
    assert rtx == l4


def test_without_requireGpu_the_worker_is_not_told_to_insist(deploy):
    envs = deploy(requireGpu="false").only(JOB)["template"]["template"]["containers"][0]["envs"]
    assert "REQUIRED_GPU" not in [env["name"] for env in envs]


def test_variables_are_sorted_by_name_as_the_api_keeps_them(deploy):
    envs = deploy(env='{"ZEBRA": "1", "ALPHA": "2", "lower": "3"}').only(JOB)["template"]["template"]["containers"][0][
        "envs"
    ]
    names = [env["name"] for env in envs]
    assert names == sorted(names)
    assert {"ZEBRA", "ALPHA", "lower", "CHECKPOINT_DIR"} <= set(names)


def test_what_a_stack_sets_reaches_the_job(deploy):
    job = deploy(
        workload="countdown",
        workloadArgs='["--steps", "100"]',
        timeout="600s",
        maxRetries="5",
        taskCount="4",
        parallelism="2",
        cpu="8",
        memory="32Gi",
        mountPath="/data/ckpt",
        labels='{"team": "research"}',
        nameSuffix="b",
        disposable="true",
    ).only(JOB)
    template = job["template"]
    task, container = template["template"], template["template"]["containers"][0]
    assert job["name"] == "gpu-resilient-job-b"
    assert job["deletionProtection"] is False
    assert (template["taskCount"], template["parallelism"], task["maxRetries"], task["timeout"]) == (4, 2, 5, "600s")
    assert container["args"] == ["countdown", "--steps", "100"]
    assert container["volumeMounts"] == [{"name": "checkpoint-volume", "mountPath": "/data/ckpt"}]
    assert container["resources"]["limits"] == {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}
    assert template["labels"] == {"app": "gpujob", "team": "research"}
    assert {"name": "TASK_TIMEOUT_S", "value": "600"} in container["envs"]
    assert {"name": "CHECKPOINT_DIR", "value": "/data/ckpt"} in container["envs"]
