"""Rules of secrets, network and keys: references that are complete, pinned, and in the right place. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from infra.problems import Problem, problem_with
from infra.secret_versions import SecretVersion
from infra.settings import Settings

_NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
_PROJECT = r"projects/[a-z][a-z0-9:.-]{4,61}[a-z0-9]"


def check_access(settings: Settings) -> list[Problem]:
    """What the job may reach, and by which key its data is closed."""
    return [*_secrets(settings), *_network(settings), *_key(settings)]


def _secrets(s: Settings) -> Iterator[Problem]:
    paste = f"gpujob:secrets:\n  API_TOKEN: projects/{s.project or 'P'}/secrets/api-token/versions/1"
    for name, reference in s.secrets.items():
        if name in s.env:
            yield problem_with("secrets", f"{name} is set by env as well", paste, "each variable in one place")
        elif SecretVersion.parse(reference) is None:
            yield problem_with("secrets", f"{name}: {reference!r} {_why_not(reference)}", paste)


def _why_not(reference: str) -> str:
    if reference.endswith("/versions/latest"):
        return (
            "moves: an attempt that resumes could find another value than the one before it. Name the version; to "
            "rotate, add a version and change the number"
        )
    if re.fullmatch(r"projects/[^/]+/secrets/[^/]+", reference):
        return "names a secret, but not which version of it"
    return "is not a version of a secret"


def _network(s: Settings) -> Iterator[Problem]:
    if s.network and not re.fullmatch(rf"({_PROJECT}/global/networks/)?{_NAME}", s.network):
        yield problem_with("network", f"{s.network!r} is not a network", "gpujob:network: default")
    if s.subnetwork:
        match = re.fullmatch(rf"({_PROJECT}/regions/(?P<region>[a-z0-9-]+)/subnetworks/)?{_NAME}", s.subnetwork)
        if not match:
            yield problem_with("subnetwork", f"{s.subnetwork!r} is not a subnetwork", "gpujob:subnetwork: default")
        elif match["region"] and match["region"] != s.region:
            what = f"{s.subnetwork} is in {match['region']}, the job in {s.region}"
            yield problem_with(
                "subnetwork", what, f"gpujob:subnetwork: {s.subnetwork.replace(match['region'], s.region)}"
            )
    for tag in s.network_tags:
        if not re.fullmatch(_NAME, tag):
            yield problem_with("networkTags", f"{tag!r} is not a network tag", "gpujob:networkTags:\n  - gpu-training")
    if s.egress not in ("", "PRIVATE_RANGES_ONLY", "ALL_TRAFFIC"):
        yield problem_with("egress", f"{s.egress!r}", "gpujob:egress: PRIVATE_RANGES_ONLY")
    elif (s.egress or s.network_tags) and not s.uses_network:
        key, value = ("egress", s.egress) if s.egress else ("networkTags", ", ".join(s.network_tags))
        what = f"{value} says something about a VPC, and neither network nor subnetwork is set"
        yield problem_with(key, what, "gpujob:network: default", "together with network or subnetwork")


def _key(s: Settings) -> Iterator[Problem]:
    if not s.kms_key:
        return
    example = f"projects/{s.project or 'P'}/locations/{s.region or 'europe-west4'}/keyRings/RING/cryptoKeys/KEY"
    match = re.fullmatch(
        rf"{_PROJECT}/locations/([a-z0-9-]+)/keyRings/[\w-]{{1,63}}/cryptoKeys/[\w-]{{1,63}}", s.kms_key
    )
    if not match:
        yield problem_with("kmsKey", f"{s.kms_key!r} is not a key", f"gpujob:kmsKey: {example}")
    elif match[1] != s.region:
        what = f"the key is in {match[1]}, what it is to encrypt in {s.region}: buckets and repositories refuse that"
        yield problem_with("kmsKey", what, f"gpujob:kmsKey: {example}")
