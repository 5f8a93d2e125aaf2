"""The one resource that Google's provider lacks: an image built by Cloud Build. A thin Pulumi dynamic provider.

Pulumi pickles the class into the stack's state, so it holds no client and no secret: endpoints and token come from
`configure`, and what does the work is imported inside the methods, in the provider's own process.
"""

from __future__ import annotations

import sys
from typing import Any

from pulumi.dynamic import ConfigureRequest, CreateResult, DiffResult, ReadResult, ResourceProvider, UpdateResult

REBUILD_ON = ("contextHash", "buildArgs", "repositoryUrl", "project", "region", "kmsKey")
"""Inputs that end in another image, or in an image elsewhere. A new build account or bucket alone builds nothing."""


class BuildProvider(ResourceProvider):
    """Inputs: `infra.cloud_build.BuildRequest`'s. Outputs: those, image (by digest), digest, buildId, logUrl."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:
        """Keep the stack's connection settings in this process."""
        endpoints = ("cloudBuild", "storage", "logging", "artifactRegistry")
        names = [*(f"{product}CustomEndpoint" for product in endpoints), "accessToken"]
        self._connection = {name: str(req.config.get(f"gcp:{name}") or "") for name in names}

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Always an update: the image of before stays in the registry, where a running execution may still need it."""
        return DiffResult(changes=any(_olds.get(name) != _news.get(name) for name in REBUILD_ON), replaces=[])

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Build; never called in a preview."""
        return CreateResult(f"{props['project']}/{props['region']}/{props['repositoryUrl']}", self._build(props))

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Build anew."""
        return UpdateResult(self._build(_news))

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """On a refresh: an image that vanished from the registry is forgotten, so that the next update builds it."""
        from infra.connection import Connection
        from infra.image_registry import RegistryError, image_exists

        known = {name: value for name, value in props.items() if not name.startswith("__")}
        try:
            there = image_exists(str(known["image"]), Connection.from_config(self._connection))
        except RegistryError:
            sys.tracebacklimit = 0
            raise
        return ReadResult(id_, known) if there else ReadResult("", {})

    # delete: nothing to do. Images go with their repository, or by its cleanup rules.

    def _build(self, props: dict[str, Any]) -> dict[str, Any]:
        from infra.cloud_build import BuildError, BuildRequest, build
        from infra.connection import Connection

        inputs = {name: value for name, value in props.items() if not name.startswith("__")}
        try:
            built = build(BuildRequest.from_inputs(inputs), Connection.from_config(self._connection))
        except BuildError:
            # Pulumi prints the traceback; for a failed build the message says all, and the frames would bury it.
            sys.tracebacklimit = 0
            raise
        return {**inputs, **built}
