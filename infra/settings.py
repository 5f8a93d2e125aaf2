"""Everything that a stack decides, in one frozen value; the only place that reads Pulumi's configuration.

Each field marked `key(...)` is a key of our namespace: `gpu_type` is `gpujob:gpuType`. Pulumi.yaml and
docs/configuration.md repeat what is written here, and a test holds them to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

from infra.accelerators import CATALOGUE, Accelerator
from infra.exposure import Exposure, worst_case

NAMESPACE = "gpujob"
APP_LABEL = "app"


def key(default: Any, meaning: str, *, allowed: str, effect: str = "updates the job") -> Any:
    """A configuration key: its default, what it means, what is allowed, and what a change of it does."""
    metadata = {"meaning": meaning, "allowed": allowed, "effect": effect}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


_NAMED = "replaces what bears the name"
_GUARDED = "replaces the bucket; refused by the engine unless disposable"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A validated stack. Made by `infra.rules.parse`, which raises SettingsError; never by hand outside of tests."""

    project: str
    """`gcp:project`: the project id."""
    region: str
    """`gcp:region`: where the job runs and where bucket and repository are."""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Base URLs by product (run, logging, storage) where `gcp:*CustomEndpoint` replaces Google's own; else empty."""
    warnings: tuple[str, ...] = ()
    """What works but deserves a second look."""

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
    image: str = key(
        "",
        "A container image to deploy instead of building one: how prod takes the digest that dev has proved.",
        allowed="empty, or HOST/PATH@sha256:<64 hex digits>; a tag is refused",
        effect="updates the job; build account, source bucket and build go",
    )
    image_readers: tuple[str, ...] = key(
        (),
        "Who else may pull from the repository, such as the Cloud Run agent of the project that runs prod.",
        allowed="a list of IAM members: serviceAccount:..., group:..., user:...",
        effect="adds or removes grants",
    )
    env: Mapping[str, str] = key(
        {},
        "Further environment variables of the worker. Not for secrets: they are readable by who can see the job.",
        allowed="names of letters, digits and _; values up to 32768 bytes; none that Cloud Run or the job sets itself",
    )
    labels: Mapping[str, str] = key(
        {},
        "Labels of the job, its executions, the buckets and the repository.",
        allowed="up to 63 of a-z, 0-9, _ and -; a key starts with a letter",
        effect="updates them in place",
    )
    mount_path: str = key(
        "/checkpoints", "Where the bucket is mounted in the container.", allowed="an absolute path, not a system folder"
    )
    bucket_role: str = key(
        "roles/storage.objectUser",
        "What the job's account may do on the checkpoint bucket.",
        allowed="roles/storage.objectUser, or the tutorial's roles/storage.objectAdmin",
        effect="replaces the grant",
    )
    soft_delete_seconds: int = key(
        0,
        "How long the bucket keeps deleted objects. Each pruned checkpoint is billed that much longer.",
        allowed="0, or 604800 (7 days) to 7776000 (90 days)",
        effect="updates the bucket",
    )
    job_name: str = key("gpu-resilient-job", "Name of the job.", allowed="up to 49 of a-z, 0-9 and -", effect=_NAMED)
    account_name: str = key(
        "gpu-job-sa", "Account that the job runs as.", allowed="6 to 30 of a-z, 0-9 and -", effect=_NAMED
    )
    build_account_name: str = key(
        "gpu-job-build", "Account that builds the image.", allowed="6 to 30 of a-z, 0-9 and -", effect=_NAMED
    )
    bucket_name: str = key(
        "",
        "Bucket of the checkpoints. Empty: gpu-checkpoints-<project>.",
        allowed="3 to 63 of a-z, 0-9, _ and -; unique in all of Cloud Storage",
        effect=_GUARDED,
    )
    source_bucket_name: str = key(
        "",
        "Bucket to which the build context is uploaded. Empty: gpu-build-<project>.",
        allowed="as bucketName",
        effect=_NAMED,
    )
    repository_name: str = key(
        "gpujob", "Artifact Registry repository of the image.", allowed="up to 63 of a-z, 0-9 and -", effect=_NAMED
    )
    name_suffix: str = key(
        "",
        "Appended with a - to each of the names above, so that two stacks fit into one project.",
        allowed="up to 12 of a-z, 0-9 and -",
        effect="replaces everything that has a name",
    )
    disposable: bool = key(
        False,
        "Whether `pulumi destroy` may delete bucket and job with all that is in them. False protects both.",
        allowed="true, false",
        effect="updates protection; to tear a protected stack down, set it, `pulumi up`, then `pulumi destroy`",
    )
    gpu_usd_per_hour: str = key(
        "",
        "Your price of one GPU for an hour, US dollars. Empty: the list price that infra/accelerators.py knows.",
        allowed="empty, or a number like 0.67",
        effect="changes exports only",
    )

    @property
    def accelerator(self) -> Accelerator:
        return CATALOGUE[self.gpu_type]

    @property
    def timeout_s(self) -> int:
        return int(self.timeout.removesuffix("s"))

    @property
    def memory_gib(self) -> int:
        return int(self.memory.removesuffix("Gi"))

    @property
    def bucket(self) -> str:
        return self._suffixed(self.bucket_name or f"gpu-checkpoints-{self.project}")

    @property
    def source_bucket(self) -> str:
        return self._suffixed(self.source_bucket_name or f"gpu-build-{self.project}")

    @property
    def job(self) -> str:
        return self._suffixed(self.job_name)

    @property
    def account(self) -> str:
        return self._suffixed(self.account_name)

    @property
    def build_account(self) -> str:
        return self._suffixed(self.build_account_name)

    @property
    def repository(self) -> str:
        return self._suffixed(self.repository_name)

    @property
    def repository_url(self) -> str:
        """Docker path of the repository, without an image's name."""
        return f"{self.region}-docker.pkg.dev/{self.project}/{self.repository}"

    @property
    def all_labels(self) -> dict[str, str]:
        """The user's labels, and `app` so that costs and logs can be told apart."""
        return {APP_LABEL: NAMESPACE, **self.labels}

    @property
    def builds_image(self) -> bool:
        return not self.image

    @property
    def owns_repository(self) -> bool:
        """Also where an image out of this very repository is pinned: its deletion would take the image with it."""
        return self.builds_image or self.image.startswith(self.repository_url + "/")

    @property
    def launch_stage(self) -> str | None:
        """BETA exactly when a preview feature is used (GPU attempts beyond an hour): else it differs for ever."""
        return "BETA" if self.timeout_s > GPU_TIMEOUT_GA_S else None

    @property
    def exposure(self) -> Exposure:
        price = float(self.gpu_usd_per_hour) if self.gpu_usd_per_hour else None
        return worst_case(
            timeout_s=self.timeout_s,
            max_retries=self.max_retries,
            tasks=self.task_count,
            usd_per_hour=self.accelerator.usd_per_hour(int(self.cpu), self.memory_gib, price),
        )

    def _suffixed(self, name: str) -> str:
        return f"{name}-{self.name_suffix}" if self.name_suffix else name


GPU_TIMEOUT_GA_S = 3600
"""Longest attempt with a GPU that needs no preview access."""


def camel(name: str) -> str:
    """`gpu_type` -> `gpuType`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def declared_keys() -> dict[str, Field[Any]]:
    """The fields that are configuration keys, by their camelCase name."""
    return {camel(f.name): f for f in fields(Settings) if "meaning" in f.metadata}


def default_of(key_field: Field[Any]) -> Any:
    """What the key is where a stack does not set it."""
    return key_field.default if key_field.default is not MISSING else {}


def load() -> Settings:
    """Read this stack's configuration and validate it.

    Raises pulumi.RunError, which the engine prints without a traceback, if the stack cannot work. Warnings are logged.
    """
    import pulumi
    from pulumi.runtime.config import CONFIG, get_config_env

    from infra.problems import SettingsError
    from infra.rules import parse

    everything: dict[str, Any] = {**get_config_env(), **CONFIG.get()}
    ours = {k.split(":", 1)[1]: str(v) for k, v in everything.items() if k.startswith(f"{NAMESPACE}:")}
    gcp = pulumi.Config("gcp")
    products = {"run": "cloudRunV2", "logging": "logging", "storage": "storage"}
    urls = {product: gcp.get(f"{prefix}CustomEndpoint") for product, prefix in products.items()}
    try:
        settings = parse(
            ours,
            project=gcp.get("project") or "",
            region=gcp.get("region") or "",
            endpoints={product: url for product, url in urls.items() if url},
        )
    except SettingsError as error:
        raise pulumi.RunError(str(error)) from None
    for warning in settings.warnings:
        pulumi.log.warn(warning)
    return settings
