"""How a task reaches the network: Direct VPC egress, or none of it."""

from __future__ import annotations

from dataclasses import dataclass

from pulumi_gcp import cloudrunv2

from infra.settings import Settings


@dataclass(frozen=True)
class Vpc:
    """One network interface, which is all that Cloud Run supports. Empty texts are left to the API."""

    network: str
    subnetwork: str
    tags: tuple[str, ...]
    egress: str

    @classmethod
    def of(cls, settings: Settings) -> Vpc | None:
        """None where the stack names neither network nor subnetwork."""
        if not settings.uses_network:
            return None
        # Said outright: what the API would choose may change, and a refresh would show it.
        egress = settings.egress or "PRIVATE_RANGES_ONLY"
        return cls(settings.network, settings.subnetwork, settings.network_tags, egress)

    def access(self) -> cloudrunv2.JobTemplateTemplateVpcAccessArgs:
        """As the job declares it."""
        interface = cloudrunv2.JobTemplateTemplateVpcAccessNetworkInterfaceArgs(
            network=self.network or None, subnetwork=self.subnetwork or None, tags=list(self.tags) or None
        )
        return cloudrunv2.JobTemplateTemplateVpcAccessArgs(egress=self.egress, network_interfaces=[interface])
