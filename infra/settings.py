"""Everything that a stack decides, in one frozen value; the only place that reads Pulumi's configuration.

The keys themselves are declared in infra/keys/: `gpu_type` there is `gpujob:gpuType` in a stack's file. Pulumi.yaml and
docs/configuration.md repeat what is written there, and a test holds them to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from infra.accelerators import CATALOGUE, Accelerator
from infra.exposure import Expectation, Exposure, expected_case, worst_case
from infra.keys.alerts import AlertKeys
from infra.keys.cost import CostKeys
from infra.keys.declaring import NAMESPACE, camel, default_of
from infra.keys.image import ImageKeys
from infra.keys.job import JobKeys
from infra.keys.names import NameKeys
from infra.keys.security import SecurityKeys
from infra.keys.storage import StorageKeys
from infra.ownership import owned
from infra.secret_versions import SecretVersion

__all__ = ["APP_LABEL", "GROUPS", "NAMESPACE", "Settings", "camel", "declared_keys", "default_of", "load"]

APP_LABEL = "app"

GROUPS: Mapping[str, type] = {
    "What runs": JobKeys,
    "The image": ImageKeys,
    "Storage": StorageKeys,
    "Network, encryption, attestation": SecurityKeys,
    "Alerts": AlertKeys,
    "Names and protection": NameKeys,
    "Cost": CostKeys,
}
"""The keys by concern, in the order in which documentation lists them."""


@dataclass(frozen=True, kw_only=True)
class Settings(CostKeys, NameKeys, AlertKeys, SecurityKeys, StorageKeys, ImageKeys, JobKeys):
    """A validated stack. Made by `infra.rules.parse`, which raises SettingsError; never by hand outside of tests."""

    project: str
    """`gcp:project`: the project id."""
    region: str
    """`gcp:region`: where the job runs and where bucket and repository are."""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Base URLs by product (run, logging, storage) where `gcp:*CustomEndpoint` replaces Google's own; else empty."""
    stack: str = ""
    """Name of the stack, for the mark on what it makes; empty where there is only a file."""
    warnings: tuple[str, ...] = ()
    """What works but deserves a second look."""

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
    def own_labels(self) -> dict[str, str]:
        """Those and the stack's mark: on what is made once, not on executions."""
        return owned(self.all_labels, self.stack)

    @property
    def builds_image(self) -> bool:
        return not self.image

    @property
    def owns_repository(self) -> bool:
        """Also where an image out of this very repository is pinned: its deletion would take the image with it."""
        return self.builds_image or self.image.startswith(self.repository_url + "/")

    @property
    def launch_stage(self) -> str | None:
        """BETA exactly when a preview feature is used (a GPU beyond an hour, a disk): else it differs for ever."""
        return "BETA" if self.timeout_s > GPU_TIMEOUT_GA_S or self.ephemeral_disk else None

    @property
    def secret_versions(self) -> dict[str, SecretVersion]:
        """Variable -> version of a secret, sorted by variable."""
        found = {name: SecretVersion.parse(reference) for name, reference in sorted(self.secrets.items())}
        return {name: version for name, version in found.items() if version}

    @property
    def uses_network(self) -> bool:
        return bool(self.network or self.subnetwork)

    @property
    def usd_per_hour(self) -> float | None:
        """Price of one task for an hour; None where the GPU's is unknown."""
        price = float(self.gpu_usd_per_hour) if self.gpu_usd_per_hour else None
        return self.accelerator.usd_per_hour(int(self.cpu), self.memory_gib, price)

    @property
    def exposure(self) -> Exposure:
        """What one execution can cost at worst."""
        return worst_case(
            timeout_s=self.timeout_s,
            max_retries=self.max_retries,
            tasks=self.task_count,
            usd_per_hour=self.usd_per_hour,
        )

    @property
    def expectation(self) -> Expectation | None:
        """What it is expected to cost; None where `trainingHours` does not say how long it trains."""
        if not self.training_hours:
            return None
        return expected_case(
            work_h=float(self.training_hours),
            interruptions_per_day=float(self.interruptions_per_day),
            timeout_s=self.timeout_s,
            max_retries=self.max_retries,
            tasks=self.task_count,
            usd_per_hour=self.usd_per_hour,
        )

    def _suffixed(self, name: str) -> str:
        return f"{name}-{self.name_suffix}" if self.name_suffix else name


GPU_TIMEOUT_GA_S = 3600
"""Longest attempt with a GPU that needs no preview access."""


def declared_keys() -> dict[str, Field[Any]]:
    """The fields that are configuration keys, by their camelCase name, in the order of GROUPS."""
    return {camel(f.name): f for group in GROUPS.values() for f in fields(group)}


def load() -> Settings:
    """Read this stack's configuration and validate it.

    Raises pulumi.RunError, which the engine prints without a traceback, if the stack cannot work. Warnings are logged.
    """
    import pulumi
    from pulumi.runtime.config import CONFIG, get_config_env

    from infra.cost_line import cost_line
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
            stack=pulumi.get_stack(),
        )
    except SettingsError as error:
        raise pulumi.RunError(str(error)) from None
    for warning in settings.warnings:
        pulumi.log.warn(warning)
    pulumi.log.info(cost_line(settings))
    return settings
