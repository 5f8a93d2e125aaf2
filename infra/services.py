"""The Google APIs that the stack uses, enabled before anything else and left enabled when it goes."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.settings import Settings

ALWAYS = ("artifactregistry", "iam", "run", "storage")


@dataclass(frozen=True)
class ServicesArgs:
    """Which APIs, without their `.googleapis.com`."""

    project: str
    apis: tuple[str, ...]

    @classmethod
    def of(cls, settings: Settings) -> ServicesArgs:
        """Only what this stack's settings need."""
        needed = {
            "cloudbuild": settings.builds_image,
            "cloudkms": bool(settings.kms_key),
            "compute": settings.uses_network,
            "logging": settings.observability,
            "monitoring": settings.observability,
            "secretmanager": bool(settings.secrets),
            "binaryauthorization": settings.binary_authorization,
        }
        return cls(project=settings.project, apis=(*ALWAYS, *(api for api, is_needed in needed.items() if is_needed)))


class Services(pulumi.ComponentResource):
    """Enabled APIs. Deliberately never disables one: another stack of the project may be using it."""

    enabled: list[pulumi.Resource]
    """What other components depend on."""

    def __init__(self, name: str, args: ServicesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:infra:Services", name, None, opts)
        self.enabled = [
            gcp.projects.Service(
                f"{name}-{api}",
                project=args.project,
                service=f"{api}.googleapis.com",
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for api in args.apis
        ]
        self.register_outputs({"apis": list(args.apis)})
