"""Where Google's APIs are for the dynamic provider, and with which credentials they are asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from google.auth.credentials import AnonymousCredentials, Credentials


@dataclass(frozen=True)
class Connection:
    """Where Google's APIs are. All empty: Google's own, with application-default credentials."""

    build_url: str = ""
    storage_url: str = ""
    logging_url: str = ""
    registry_url: str = ""
    token: str = ""

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> Connection:
        """From the `gcp:` keys that the Google provider reads too."""
        return cls(
            build_url=config.get("cloudBuildCustomEndpoint", ""),
            storage_url=config.get("storageCustomEndpoint", ""),
            logging_url=config.get("loggingCustomEndpoint", ""),
            registry_url=config.get("artifactRegistryCustomEndpoint", ""),
            token=config.get("accessToken", ""),
        )

    def credentials(self, url: str) -> Credentials | None:
        """None stands for application-default credentials. Plain http never carries a token."""
        if urlsplit(url).scheme == "http":
            return AnonymousCredentials()
        if self.token:
            from google.oauth2.credentials import Credentials as TokenCredentials

            return TokenCredentials(self.token)
        return None


def reach_directly(connection: Connection) -> None:
    """No proxy of the environment stands between this process and an endpoint in plain http: that is this machine."""
    urls = (connection.build_url, connection.storage_url, connection.logging_url, connection.registry_url)
    plain = [urlsplit(url) for url in urls]
    hosts = sorted({parts.hostname for parts in plain if parts.scheme == "http" and parts.hostname})
    for name in ("NO_PROXY", "no_proxy"):
        known = os.environ.get(name, "").split(",")
        os.environ[name] = ",".join([*filter(None, known), *(host for host in hosts if host not in known)])
