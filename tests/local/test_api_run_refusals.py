"""What the live Cloud Run API refuses, the local cloud refuses, in the same words where they are known."""

import copy
from pathlib import Path
from typing import Any

import pytest

from localcloud.server.errors import ApiError
from localcloud.server.run_rules import check_job
from localcloud.settings import Settings
from localcloud.testing import running_cloud

PARENT = "/run/v2/projects/local-project/locations/europe-west4"


def _gpu_job() -> dict[str, Any]:
    """A job that is accepted; each case changes one thing."""
    container = {
        "image": "example.com/any/image:1",
        "env": [{"name": "MODE", "value": "fast"}],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    task = {
        "containers": [container],
        "volumes": [{"name": "data", "gcs": {"bucket": "some-bucket"}}],
        "gpuZonalRedundancyDisabled": True,
        "nodeSelector": {"accelerator": "nvidia-l4"},
        "timeout": "43200s",
    }
    return {"labels": {"team": "ml"}, "template": {"parallelism": 1, "taskCount": 1, "template": task}}


def _set(path: str, value: Any) -> Any:
    """A change of the job: a dotted path from the job, `task.` and `container.` as short names; `...` removes."""
    full = path.replace("container.", "task.containers.0.").replace("task.", "template.template.")

    def change(job: dict[str, Any]) -> None:
        *parents, leaf = full.split(".")
        target: Any = job
        for parent in parents:
            target = target[int(parent)] if isinstance(target, list) else target.setdefault(parent, {})
        if value is ...:
            del target[leaf]
        else:
            target[leaf] = value

    return change


def _limits(cpu: str, memory: str, gpu: str | None = "1") -> Any:
    limits = {"cpu": cpu, "memory": memory, **({"nvidia.com/gpu": gpu} if gpu else {})}
    return _set("container.resources", {"limits": limits})


def _rtx(cpu: str, memory: str) -> Any:
    def change(job: dict[str, Any]) -> None:
        _limits(cpu, memory)(job)
        _set("task.nodeSelector", {"accelerator": "nvidia-rtx-pro-6000"})(job)

    return change


REFUSED = {
    "two gpus": (_limits("4", "16Gi", "2"), "GPU can only be set to 1"),
    "too little cpu": (_limits("2", "16Gi"), "cpu must be at least 4"),
    "too little memory": (_limits("4", "8Gi"), "memory must be at least 16Gi"),
    "too much memory": (_limits("8", "64Gi"), "at most 32Gi"),
    "rtx with an odd cpu": (_rtx("21", "80Gi"), "cpu must be one of 20, 22"),
    "rtx with little memory": (_rtx("20", "64Gi"), "memory must be at least 80Gi"),
    "unknown gpu": (_set("task.nodeSelector", {"accelerator": "nvidia-h100"}), "'nvidia-h100' is none of nvidia-l4"),
    "misspelt in a container": (_set("container.arg", ["x"]), 'Unknown name "arg" at '),
    "retries as text": (_set("task.maxRetries", "three"), "Invalid value at 'job.template.template.maxRetries'"),
    "first generation": (_set("task.executionEnvironment", "EXECUTION_ENVIRONMENT_GEN1"), "GEN2"),
    "eleven retries": (_set("task.maxRetries", 11), "max_retries: must be in the range [0, 10]"),
    "10,001 tasks": (_set("template.taskCount", 10001), "task_count: must be in the range [0, 10000]"),
    "reserved environment": (
        _set("container.env", [{"name": "CLOUD_RUN_TASK_INDEX", "value": "0"}]),
        "The following reserved env names were provided: CLOUD_RUN_TASK_INDEX. These values are automatically set",
    ),
    "long environment value": (_set("container.env", [{"name": "A", "value": "x" * 32769}]), "A has 32769 bytes"),
    "zonal redundancy": (
        _set("task.gpuZonalRedundancyDisabled", False),
        "Currently Cloud Run jobs are unable to offer GPU enabled instances with zonal redundancy",
    ),
    "parallelism above the quota": (
        _set("template.parallelism", 4),
        "spec.template.spec.parallelism: You do not have quota for using GPUs without zonal redundancy.",
    ),
    "parallelism left to the platform": (_set("template.parallelism", ...), "parallelism is as many as possible"),
    "redundancy switch without a gpu": (
        _limits("1", "1Gi", None),
        "gpu_zonal_redundancy_disabled: can only be set when",
    ),
    "mount at /proc": (
        _set("container.volumeMounts", [{"name": "data", "mountPath": "/proc/x"}]),
        "belong to the system",
    ),
    "mount at /dev": (_set("container.volumeMounts", [{"name": "data", "mountPath": "/dev"}]), "belong to the system"),
    "mount of nothing": (_set("container.volumeMounts", [{"name": "no", "mountPath": "/x"}]), "'no' is not declared"),
    "relative mount": (_set("container.volumeMounts", [{"name": "data", "mountPath": "x"}]), "must be absolute"),
    "timeout of a week and a second": (_set("task.timeout", "604801s"), "between 1s and 604800s"),
    "timeout in hours": (_set("task.timeout", "12h"), "Invalid value at 'job.template.template.timeout'"),
    "label in capitals": (_set("labels", {"Team": "ml"}), "label Team=ml"),
    "label of the system": (_set("labels", {"run.googleapis.com/x": "1"}), "belongs to the system"),
    "label value too long": (_set("template.labels", {"team": "x" * 64}), "63 characters at most"),
    "no image": (_set("container.image", ""), "containers[0].image: must not be empty"),
    "no container": (_set("task.containers", []), "exactly one container"),
    "a field that does not exist": (_set("task.maxRetry", 3), "Unknown name \"maxRetry\" at 'job.template.template'"),
    "a number where text belongs": (_set("task.timeout", 43200), "job.template.template.timeout"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_job_is_refused_and_not_stored(call: Any, case: str) -> None:
    change, message = REFUSED[case]
    job = copy.deepcopy(_gpu_job())
    change(job)
    answer = call("POST", f"{PARENT}/jobs?jobId=refused", job)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert message in error["message"]
    assert (error["status"], error["errors"][0]["reason"]) == ("INVALID_ARGUMENT", "invalid")
    assert call("GET", f"{PARENT}/jobs/refused").status_code == 404


@pytest.mark.parametrize("name", ["", "Job", "1job", "job-", "j" * 64, "job_1"])
def test_a_bad_name_is_refused(call: Any, name: str) -> None:
    answer = call("POST", f"{PARENT}/jobs?jobId={name}", _gpu_job())
    assert answer.status_code == 400
    assert "job_id" in answer.json()["error"]["message"]


@pytest.mark.parametrize(("region", "gpu"), [("europe-north1", "nvidia-l4"), ("us-east4", "nvidia-rtx-pro-6000")])
def test_a_gpu_is_refused_where_it_does_not_exist(call: Any, region: str, gpu: str) -> None:
    job = _gpu_job()
    _rtx("20", "80Gi")(job) if "rtx" in gpu else None
    answer = call("POST", f"/run/v2/projects/local-project/locations/{region}/jobs?jobId=job", job)
    assert f"{gpu} is not available in {region}" in answer.json()["error"]["message"]


def test_an_account_that_does_not_exist_is_refused(call: Any) -> None:
    job = _gpu_job()
    _set("task.serviceAccount", "nobody@local-project.iam.gserviceaccount.com")(job)
    answer = call("POST", f"{PARENT}/jobs?jobId=job", job)
    assert answer.status_code == 403
    assert "iam.serviceaccounts.actAs" in answer.json()["error"]["message"]


def test_validate_only_checks_and_stores_nothing(call: Any) -> None:
    operation = call.ok("POST", f"{PARENT}/jobs?jobId=job&validateOnly=true", _gpu_job())
    assert operation["done"] is True
    assert call("GET", f"{PARENT}/jobs/job").status_code == 404


def test_a_project_without_gpu_quota_is_told_at_creation(tmp_path: Any, jobs_on: Any) -> None:
    with running_cloud(tmp_path / "state", gpu_quota=0) as cloud, jobs_on(cloud) as jobs:
        answer = jobs.call("POST", f"{PARENT}/jobs?jobId=job", _gpu_job())
        assert answer.status_code == 400
        assert "You do not have quota for using GPUs" in answer.json()["error"]["message"]


def test_an_hour_is_the_limit_of_a_gpu_job_where_the_cloud_is_told_so(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path, gpu_timeout_ceiling_s=3600)
    job = _gpu_job()
    job["template"]["template"] |= {"maxRetries": 3, "executionEnvironment": "EXECUTION_ENVIRONMENT_GEN2"}
    with pytest.raises(ApiError, match="must be between 1s and 3600s when using GPU, not 43200s"):
        check_job(job, "europe-west4", settings)
    _set("task.timeout", "3600s")(job)
    check_job(job, "europe-west4", settings)
    for change in (_limits("4", "16Gi", None), _set("task.timeout", "43200s"), _set("task.nodeSelector", {})):
        change(job)
    _set("task.gpuZonalRedundancyDisabled", ...)(job)
    check_job(job, "europe-west4", settings)


def test_an_image_missing_from_the_own_registry_is_named_when_the_job_is_run(call: Any) -> None:
    image = "europe-west4-docker.pkg.dev/local-project/apps/app@sha256:" + "0" * 64
    job = _gpu_job()
    _set("container.image", image)(job)
    call.ok("POST", f"{PARENT}/jobs?jobId=job", job)
    answer = call("POST", f"{PARENT}/jobs/job:run", {})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["status"] == "FAILED_PRECONDITION"
    assert error["message"].startswith(f"Image '{image}' not found. No execution was started.")


def test_running_a_job_that_does_not_exist_is_404(call: Any) -> None:
    assert call("POST", f"{PARENT}/jobs/none:run", {}).status_code == 404
