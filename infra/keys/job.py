"""Keys of what runs: the workload, its GPU and quantities, its attempts, its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.accelerators import CATALOGUE
from infra.keys.declaring import key


@dataclass(frozen=True, kw_only=True)
class JobKeys:
    """What a task is and how often it is tried."""

    workload: str = key(
        "language_model",
        "What the container trains: the first argument of `python -m app`.",
        allowed="a name like language_model or countdown",
    )
    workload_args: tuple[str, ...] = key(
        (), "Further arguments of the workload, one list item each.", allowed="a list of strings"
    )
    gpu_type: str = key("nvidia-l4", "The GPU of each task; one an instance.", allowed=", ".join(sorted(CATALOGUE)))
    cpu: str = key("4", "vCPUs of each task.", allowed="nvidia-l4: 4, 6 or 8; nvidia-rtx-pro-6000: 20 to 30, even")
    memory: str = key(
        "16Gi",
        "Memory of each task; the model, its checkpoint being staged and the bucket mount's buffers share it.",
        allowed="nvidia-l4: 16Gi to 32Gi; nvidia-rtx-pro-6000: 80Gi to 120Gi; at most 4Gi a vCPU",
    )
    timeout: str = key(
        "43200s",
        "Longest duration of one attempt. Every retry gets it again.",
        allowed="seconds with an s, up to 604800s (168 h); above 3600s Google may have to grant preview access",
    )
    max_retries: int = key(
        3, "How often a task that ended by failure, maintenance or timeout is started again.", allowed="1 to 10"
    )
    task_count: int = key(1, "Tasks of one execution; each has its own checkpoint line.", allowed="1 to 10000")
    parallelism: int = key(
        1, "Tasks that run at the same time. GPU quota is checked against it.", allowed="1 to taskCount"
    )
    require_gpu: bool = key(
        True,
        "Whether the worker refuses to run (exit 78, within seconds) where the declared GPU is not usable.",
        allowed="true, false",
    )
    env: Mapping[str, str] = key(
        {},
        "Further environment variables of the worker. Not for secrets: they are readable by who can see the job.",
        allowed="names of letters, digits and _; values up to 32768 bytes; none that Cloud Run or the job sets itself",
    )
    secrets: Mapping[str, str] = key(
        {},
        "Environment variables that Cloud Run fills from Secret Manager as a task starts; the job's account may read "
        "these secrets and no others.",
        allowed="names as for env; values projects/P/secrets/S/versions/N, N a number (`latest` is refused: a retry "
        "could start with another value than the attempt it resumes)",
        effect="updates the job; adds or removes the grants on the secrets",
    )
    labels: Mapping[str, str] = key(
        {},
        "Labels of the job, its executions, the buckets and the repository.",
        allowed="up to 63 of a-z, 0-9, _ and -; a key starts with a letter",
        effect="updates them in place",
    )
