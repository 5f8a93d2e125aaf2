"""Images in the local registry: which digest a reference means, and what that image contains."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcloud.kinds import Kind
from localcloud.jsontypes import Json, items, strings
from localcloud.store import Store

_REFERENCE = re.compile(
    r"^(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)/(?P<name>[^@:]+?)"
    r"(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?$"
)


@dataclass(frozen=True)
class Reference:
    """An image in Artifact Registry, by tag or by digest."""

    location: str
    project: str
    repository: str
    name: str
    tag: str
    digest: str

    @property
    def repository_name(self) -> str:
        """Resource name of the repository."""
        return f"projects/{self.project}/locations/{self.location}/repositories/{self.repository}"

    @property
    def uri(self) -> str:
        """The image without tag or digest."""
        return f"{self.location}-docker.pkg.dev/{self.project}/{self.repository}/{self.name}"


def parse(reference: str) -> Reference | None:
    """The parts of a reference into Artifact Registry; None for an image of any other registry."""
    match = _REFERENCE.match(reference)
    if match is None:
        return None
    parts = {key: value or "" for key, value in match.groupdict().items()}
    if not parts["tag"] and not parts["digest"]:
        parts["tag"] = "latest"
    return Reference(**parts)


@dataclass(frozen=True)
class Image:
    """What the executor needs of an image."""

    root: Path
    working_directory: str
    environment: dict[str, str]
    entrypoint: Sequence[str]
    command: Sequence[str]


class Images:
    """The images that builds have pushed."""

    def __init__(self, store: Store, images_dir: Path) -> None:
        self._store = store
        self._images_dir = images_dir

    def document(self, reference: Reference) -> Json | None:
        """The registry's document of the image that the reference means."""
        prefix = f"{reference.repository_name}/dockerImages/"
        for image in reversed(self._store.list(Kind.IMAGE, prefix)):
            uri, _, digest = str(image["uri"]).partition("@")
            if uri != reference.uri:
                continue
            if digest == reference.digest or (not reference.digest and reference.tag in items(image.get("tags"))):
                return image
        return None

    def find(self, text: str) -> Image | None:
        """The image for the executor; None for one that is not in this registry (it then has no files and no
        defaults)."""
        reference = parse(text)
        image = self.document(reference) if reference else None
        if image is None:
            return None
        config = image["_config"]
        return Image(
            root=self._images_dir / str(image["uri"]).rpartition("@sha256:")[2],
            working_directory=str(config["working_directory"]),
            environment=strings(config["environment"]),
            entrypoint=[str(each) for each in items(config["entrypoint"])],
            command=[str(each) for each in items(config["command"])],
        )
