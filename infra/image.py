"""The worker's image: built from the build context by an account that can do nothing else, known by its digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import Resource

from infra.accelerators import Accelerator
from infra.buckets import bucket_grant, private_bucket
from infra.builder import BuildProvider
from infra.context import context_hash

SOURCE_DAYS = 7
"""How long an uploaded build context is kept."""
PROJECT_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class ImageArgs:
    """What is built, as whom, from where, to where."""

    project: str
    region: str
    repository_url: str
    source_bucket: str
    labels: Mapping[str, str]
    kms_key: str
    """Of the repository and the source bucket. Another key is another repository, so the image is built anew."""
    build_account: pulumi.Input[str]
    """projects/P/serviceAccounts/EMAIL"""
    build_member: pulumi.Input[str]
    accelerator: Accelerator
    """Decides which torch is installed."""
    ready: tuple[pulumi.Resource, ...] = ()
    """What must be there before the build starts: the repository's and the project's grants."""


class BuiltImage(Resource, module="gpujob", name="BuiltImage"):
    """The dynamic resource; its provider builds on create and on change, never in a preview."""

    image: pulumi.Output[str]
    digest: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        results = dict.fromkeys(("image", "digest", "buildId", "logUrl"))
        super().__init__(BuildProvider(), name, {**props, **results}, opts)


class Image(pulumi.ComponentResource):
    """Source bucket, grant and build. The old image stays in the repository: a running execution may still need it."""

    image: pulumi.Output[str]
    """REPOSITORY/worker@sha256:..."""
    digest: pulumi.Output[str]

    def __init__(self, name: str, args: ImageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:infra:Image", name, None, opts)
        source = private_bucket(
            f"{name}-source",
            project=args.project,
            bucket=args.source_bucket,
            region=args.region,
            labels=args.labels,
            soft_delete_seconds=0,
            # Nothing in it is worth protecting: it can be uploaded again at any time.
            disposable=True,
            delete_after_days=SOURCE_DAYS,
            kms_key=args.kms_key,
            parent=self,
        )
        grant = bucket_grant(
            f"{name}-source-reader", source, role="roles/storage.objectViewer", member=args.build_member, parent=self
        )
        built = BuiltImage(
            f"{name}-build",
            {
                "project": args.project,
                "region": args.region,
                "contextHash": context_hash(PROJECT_ROOT),
                "sourceBucket": source.name,
                "repositoryUrl": args.repository_url,
                "buildAccount": args.build_account,
                "buildArgs": build_args(args.accelerator),
                **({"kmsKey": args.kms_key} if args.kms_key else {}),
            },
            pulumi.ResourceOptions(parent=self, depends_on=[grant, *args.ready]),
        )
        self.image = built.image
        self.digest = built.digest
        self.register_outputs({"image": self.image, "digest": self.digest})


def build_args(accelerator: Accelerator) -> dict[str, str]:
    """The Dockerfile's ARGs: which torch sees this GPU."""
    return {
        "CUDA_MAJOR": str(accelerator.cuda_major),
        "TORCH_INDEX": accelerator.torch_index,
        "TORCH_REQUIREMENT": accelerator.torch_requirement,
    }
