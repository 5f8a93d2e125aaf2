"""The GPUs that Cloud Run jobs offer: what each demands, where it is, what the image must contain, what it costs.

Pure data, no pulumi: the program validates against it, the image is built by it, the `gpujob` command prices with it.
Sources: Cloud Run's pages "Configure GPUs for jobs", "Configure memory limits" and "Pricing".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

# List prices as of 2026-11: us regions, US dollars, without zonal redundancy.
VCPU_USD_PER_S = 0.000018
GIB_USD_PER_S = 0.000002

GIB_PER_VCPU = 4
"""Cloud Run gives each vCPU at most 4 GiB: more than 16 GiB needs 6 vCPU, more than 24 GiB needs 8."""


@dataclass(frozen=True)
class Accelerator:
    """One GPU type. Cloud Run attaches exactly one to an instance."""

    name: str
    """As `node_selector.accelerator` spells it."""
    memory_gb: int
    """Memory of the GPU itself, GB."""
    cpus: tuple[int, ...]
    """vCPU counts that the API accepts with this GPU."""
    memory_floor_gib: int
    memory_ceiling_gib: int
    regions: tuple[str, ...]
    """Where any project may use it."""
    invited_regions: tuple[str, ...]
    """Where only projects may use it that Google has invited."""
    driver: str
    """NVIDIA driver on the host; the image cannot change it."""
    cuda: str
    """CUDA version of that driver: the newest major version whose programs find this GPU."""
    torch_requirement: str
    """What the image installs. Empty: what requirements/worker.txt pins with hashes (built for CUDA 13)."""
    torch_index: str
    """Wheel index for `torch_requirement`. Empty: the default package index."""
    gpu_usd_per_s: float | None
    """List price; None where none has been looked up: then the exposure is shown in hours only."""

    @property
    def cuda_major(self) -> int:
        """Major CUDA version that torch must be built for (minor versions are compatible within a major one)."""
        return int(self.cuda.split(".")[0])

    @property
    def all_regions(self) -> tuple[str, ...]:
        return tuple(sorted((*self.regions, *self.invited_regions)))

    def usd_per_hour(self, vcpu: int, memory_gib: float, gpu_usd_per_hour: float | None = None) -> float | None:
        """Price of one task for an hour; None if the GPU's is unknown. `gpu_usd_per_hour` replaces the list price."""
        gpu = gpu_usd_per_hour
        if gpu is None:
            if self.gpu_usd_per_s is None:
                return None
            gpu = self.gpu_usd_per_s * 3600
        return gpu + (vcpu * VCPU_USD_PER_S + memory_gib * GIB_USD_PER_S) * 3600


_L4 = Accelerator(
    name="nvidia-l4",
    memory_gb=24,
    cpus=(4, 6, 8),
    memory_floor_gib=16,
    memory_ceiling_gib=32,
    regions=("asia-southeast1", "europe-west1", "europe-west4", "us-east4"),
    invited_regions=("asia-south1", "us-central1"),
    driver="535",
    cuda="12.2",
    # The default index's torch is built for CUDA 13, which driver 535 refuses: on an L4 it finds no GPU. CUDA 12.6 runs
    # on 535 by minor-version compatibility. A range, since not every torch is published for it: the newest that is.
    torch_requirement="torch>=2.9,<=2.15.0",
    torch_index="https://download.pytorch.org/whl/cu126",
    gpu_usd_per_s=0.0001867,
)

_RTX_PRO_6000 = Accelerator(
    name="nvidia-rtx-pro-6000",
    memory_gb=96,
    cpus=(20, 22, 24, 26, 28, 30),
    memory_floor_gib=80,
    memory_ceiling_gib=120,
    regions=("asia-southeast1", "europe-west4", "us-central1"),
    invited_regions=("asia-south2",),
    driver="580",
    cuda="13.0",
    torch_requirement="",
    torch_index="",
    gpu_usd_per_s=0.00036522,
)

CATALOGUE: Mapping[str, Accelerator] = MappingProxyType({gpu.name: gpu for gpu in (_L4, _RTX_PRO_6000)})
