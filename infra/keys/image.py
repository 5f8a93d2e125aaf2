"""Keys of the image: built here or pinned, and who else may pull it."""

from __future__ import annotations

from dataclasses import dataclass

from infra.keys.declaring import key


@dataclass(frozen=True, kw_only=True)
class ImageKeys:
    """Which image the job runs."""

    image: str = key(
        "",
        "A container image to deploy instead of building one: how prod takes the digest that dev has proved. "
        "`gpujob promote dev prod` writes it.",
        allowed="empty, or HOST/PATH@sha256:<64 hex digits> (a tag is refused) with HOST one of "
        "[REGION-]docker.pkg.dev, [REGION.]gcr.io and docker.io, as Cloud Run has it; other registries by way of an "
        "Artifact Registry remote repository",
        effect="updates the job; build account, source bucket and build go",
    )
    image_readers: tuple[str, ...] = key(
        (),
        "Who else may pull from the repository, such as the Cloud Run agent of the project that runs prod.",
        allowed="a list of IAM members: serviceAccount:..., group:..., user:...",
        effect="adds or removes grants",
    )
