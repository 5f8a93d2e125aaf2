"""From source, or from a pin, to the one digest that the job runs."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.identity import Account, AccountArgs
from infra.image import Image, ImageArgs
from infra.ownership import described
from infra.registry import Registry, RegistryArgs
from infra.settings import Settings


@dataclass(frozen=True)
class Delivery:
    """The image to deploy, by digest."""

    image: pulumi.Input[str]
    digest: pulumi.Input[str]


def deliver(settings: Settings, *, after: list[pulumi.Resource]) -> Delivery:
    """Declare what this stack's image needs. A pinned image is neither built nor granted anything."""
    opts = pulumi.ResourceOptions(depends_on=after)
    builder = _build_account(settings, opts) if settings.builds_image else None
    registry = _registry(settings, builder, opts) if settings.owns_repository else None
    if builder is None or registry is None:
        return Delivery(image=settings.image, digest=settings.image.split("@")[-1])
    args = ImageArgs(
        project=settings.project,
        region=settings.region,
        repository_url=settings.repository_url,
        source_bucket=settings.source_bucket,
        labels=settings.own_labels,
        kms_key=settings.kms_key,
        build_account=builder.id,
        build_member=builder.member,
        accelerator=settings.accelerator,
        ready=(*registry.grants, *builder.grants),
    )
    image = Image("image", args, opts)
    return Delivery(image=image.image, digest=image.digest)


def _build_account(settings: Settings, opts: pulumi.ResourceOptions) -> Account:
    args = AccountArgs(
        project=settings.project,
        account_id=settings.build_account,
        display_name="GPU job image build",
        description=described(settings.stack),
        # Log entries belong to the project: no single resource could grant this.
        project_roles=("roles/logging.logWriter",),
    )
    return Account("build", args, opts)


def _registry(settings: Settings, builder: Account | None, opts: pulumi.ResourceOptions) -> Registry:
    args = RegistryArgs(
        project=settings.project,
        region=settings.region,
        repository=settings.repository,
        labels=settings.own_labels,
        kms_key=settings.kms_key,
        disposable=settings.disposable,
        # Named by whom it is for, not by position in the list: removing one leaves the others alone.
        readers={f"reader-{member}": member for member in settings.image_readers},
        writers={"writer-build": builder.member} if builder else {},
    )
    return Registry("registry", args, opts)
