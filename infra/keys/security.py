"""Keys by which a platform team closes things off: the network, a key of its own, images that were attested."""

from __future__ import annotations

from dataclasses import dataclass

from infra.keys.declaring import key


@dataclass(frozen=True, kw_only=True)
class SecurityKeys:
    """Network (Direct VPC egress), encryption and Binary Authorization."""

    network: str = key(
        "",
        "VPC network through which tasks send (Direct VPC egress). Empty, with subnetwork empty too: no VPC.",
        allowed="empty, a name, or projects/P/global/networks/N for a shared VPC",
    )
    subnetwork: str = key(
        "",
        "Subnetwork that gives the tasks their addresses. Empty: the one that bears the network's name.",
        allowed="empty, a name, or projects/P/regions/R/subnetworks/S with R the job's region",
    )
    network_tags: tuple[str, ...] = key(
        (), "Network tags of the tasks, for firewall rules.", allowed="up to 63 of a-z, 0-9 and - each"
    )
    egress: str = key(
        "",
        "What goes through the VPC. Empty: PRIVATE_RANGES_ONLY where there is a network.",
        allowed="empty, PRIVATE_RANGES_ONLY or ALL_TRAFFIC; the latter needs Private Google Access on the subnetwork",
    )
    kms_key: str = key(
        "",
        "Cloud KMS key for the buckets, the repository and the job. Empty: Google's own keys.",
        allowed="empty, or projects/P/locations/L/keyRings/R/cryptoKeys/K with L the job's region",
        effect="updates job and buckets (what is stored stays as it is); replaces the repository and builds "
        "anew, which is refused by the engine unless disposable",
    )
    binary_authorization: bool = key(
        False,
        "Whether the project's Binary Authorization policy decides if the image may run.",
        allowed="true, false",
    )
