"""The `gcp:` configuration: which keys there are, and the rule that every endpoint is this machine."""

from __future__ import annotations

import difflib
import ipaddress
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from localcloud.provider.checking import Failure
from localcloud.provider.errors import Refused
from localcloud.provider.values import UNKNOWN, Tree, Values

ENDPOINTS: Mapping[str, str] = {
    "cloudRunV2CustomEndpoint": "run/v2/",
    "storageCustomEndpoint": "storage/v1/",
    "artifactRegistryCustomEndpoint": "artifactregistry/v1/",
    "iamBetaCustomEndpoint": "iam/v1/",
    "resourceManagerCustomEndpoint": "crm/v1/",
    "serviceUsageCustomEndpoint": "serviceusage/v1beta1/",
    "loggingCustomEndpoint": "logging/v2/",
    "monitoringCustomEndpoint": "monitoring/",
    "cloudSchedulerCustomEndpoint": "scheduler/v1/",
    "secretManagerCustomEndpoint": "secretmanager/v1/",
}
"""Endpoints that the types need, with the path that each has on the local cloud."""
OTHER_ENDPOINTS = ("cloudBuildCustomEndpoint",)
"""Endpoints that only others have a use for; they must be loopback as well."""
_SETTINGS = ("project", "region", "zone", "accessToken", "defaultLabels", "pollInterval")
# Of Google's provider, and without meaning where nothing is batched and no region is looked up.
_WITHOUT_EFFECT = ("skipRegionValidation", "batching", "requestTimeout", "disableGooglePartnerName")
# Put there by the engine, not by a person.
_ENGINE = ("version", "pluginDownloadURL", "__internal")
KNOWN = (*_SETTINGS, *_WITHOUT_EFFECT, *ENDPOINTS, *OTHER_ENDPOINTS)
_CREDENTIALS = ("credentials", "impersonateServiceAccount", "impersonateServiceAccountDelegates", "externalCredentials")
_NOT_FOR_HERE = (
    "this stack has no endpoints of a local cloud, so it is meant for Google Cloud, but this shell has the provider of "
    "the local cloud on its PATH. Nothing was sent anywhere. Use a shell in which `gpujob local env` was not loaded, "
    "with Pulumi's own command line and Google's provider; or take -s local."
)
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0}


@dataclass(frozen=True)
class Settings:
    """One configured provider."""

    project: str = ""
    region: str = ""
    access_token: str = ""
    poll_interval_s: float = 1.0
    default_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    endpoints: Mapping[str, str] = field(default_factory=dict[str, str])

    def endpoint(self, key: str) -> str:
        """Base address of a product, with the trailing slash.

        Raises:
            Refused: none is configured.
        """
        if key not in self.endpoints:
            raise Refused(_missing(key))
        return self.endpoints[key]


def check_settings(given: Values) -> list[Failure]:
    """Every reason against a configuration; unknown values (of a preview) are not judged."""
    failures: list[Failure] = []
    for key, value in given.items():
        if key in _CREDENTIALS:
            reason = "is refused: this plugin talks to the local cloud only and takes no credentials. Remove it."
            failures.append(Failure(key, f"gcp:{key} {reason}"))
        elif key not in KNOWN and key not in _ENGINE:
            failures.append(Failure(key, _unknown(key)))
        elif key in ENDPOINTS or key in OTHER_ENDPOINTS:
            reason = "" if value == UNKNOWN else _not_loopback(str(value))
            if reason:
                failures.append(Failure(key, f"gcp:{key} is {str(value)!r}: {reason}"))
    missing = [key for key in ENDPOINTS if not given.get(key)]
    if len(missing) == len(ENDPOINTS):
        failures.append(Failure(missing[0], _NOT_FOR_HERE))
    else:
        failures += [Failure(key, _missing(key)) for key in missing]
    interval = given.get("pollInterval")
    if interval not in (None, UNKNOWN) and _seconds(str(interval)) is None:
        failures.append(Failure("pollInterval", f"gcp:pollInterval is {interval!r}; write it like 1s or 500ms"))
    labels = given.get("defaultLabels")
    if labels not in (None, UNKNOWN) and _labels(labels) is None:
        failures.append(Failure("defaultLabels", "gcp:defaultLabels must be a map of strings"))
    return failures


def settings_of(given: Values) -> Settings:
    """Settings from a checked configuration.

    Raises:
        Refused: `check_settings` has something against it. Asked again here because the engine configures a provider
            from its state without another check.
    """
    failures = check_settings(given)
    if failures:
        raise Refused("\n".join(failure.reason for failure in failures))
    bases = {key: str(value).rstrip("/") + "/" for key, value in given.items() if key in ENDPOINTS}
    return Settings(
        project=str(given.get("project", "")),
        region=str(given.get("region", "")),
        access_token=str(given.get("accessToken", "")),
        poll_interval_s=_seconds(str(given.get("pollInterval", "1s"))) or 1.0,
        default_labels=_labels(given.get("defaultLabels")) or {},
        endpoints=bases,
    )


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only be this machine."""
    if host == "localhost":
        try:
            found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
        except OSError:
            return False
        return all(ipaddress.ip_address(address).is_loopback for address in found)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _not_loopback(address: str) -> str:
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return "not an address"
    if parts.scheme not in ("http", "https") or not host:
        return "write it like http://127.0.0.1:8790/run/v2/"
    if parts.username is not None or parts.query or parts.fragment:
        return "an endpoint has no user, query or fragment"
    if not is_loopback(host):
        return (
            "not this machine. This plugin talks to the local cloud only (127.0.0.0/8, ::1, localhost), so that it can "
            "never touch a real project. For the real cloud use Google's own provider, and remove the endpoints."
        )
    return ""


def _missing(key: str) -> str:
    example = f"http://127.0.0.1:8790/{ENDPOINTS.get(key, '')}"
    return (
        f"gcp:{key} is missing: this plugin talks to the local cloud only and needs every endpoint. "
        f"`pulumi config set gcp:{key} {example}`"
    )


def _unknown(key: str) -> str:
    close = difflib.get_close_matches(key, KNOWN, n=1)
    hint = f" Did you mean gcp:{close[0]}?" if close else ""
    return f"gcp:{key} is not a key that this plugin knows.{hint} It knows: {', '.join(sorted(KNOWN))}."


def _seconds(value: str) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m)", value)
    return float(match[1]) * _UNITS_S[match[2]] if match else None


def _labels(value: Tree) -> dict[str, str] | None:
    """Objects arrive as JSON text from stack configuration and as objects from a program."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            return None
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in cast("Values", value).values()):
        return None
    return cast("dict[str, str]", value)
