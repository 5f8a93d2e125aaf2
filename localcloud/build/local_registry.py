"""The push: a built image's files into the local registry, and the registry's document of it."""

import asyncio
import shutil
from pathlib import Path

from localcloud.build.dockerfile import BuildError
from localcloud.build.images import Reference, parse
from localcloud.build.snapshot import Snapshot
from localcloud.jsontypes import Json, items
from localcloud.kinds import Kind
from localcloud.resources import timestamp
from localcloud.store import Store


class LocalRegistry:
    """Where builds push to. One push at a time."""

    def __init__(self, store: Store, images_dir: Path) -> None:
        self._store = store
        self._images_dir = images_dir

    def reference(self, name: str) -> Reference:
        """What the image's name refers to.

        Raises:
            BuildError: it is not of this registry, or its repository does not exist.
        """
        reference = parse(name)
        if reference is None:
            raise BuildError(
                f"The push refers to {name!r}; the local registry serves "
                "LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME only."
            )
        if self._store.get(Kind.REPOSITORY, reference.repository_name) is None:
            raise BuildError(
                "failed to push because we ran into an error: name unknown: "
                f"Repository {reference.repository!r} not found in {reference.project}/{reference.location}."
            )
        return reference

    async def push(self, name: str, image: Snapshot) -> Reference:
        """Keep the image under this name. Its files are copied in a thread: other requests go on meanwhile.

        Raises:
            BuildError: see `reference`; nothing is kept then.
        """
        self.reference(name)
        root = self._images_dir / image.digest.removeprefix("sha256:")
        size_bytes = await asyncio.to_thread(_place, image.root, root)
        while not root.is_dir():  # deleted meanwhile, with the last image that had the same content
            size_bytes = await asyncio.to_thread(_place, image.root, root)
        reference = self.reference(name)  # its repository may be gone by now, too
        self._record(reference, image, size_bytes)
        return reference

    def _record(self, reference: Reference, image: Snapshot, size_bytes: int) -> None:
        """The registry's document; a tag belongs to one digest of a package at a time."""
        prefix = f"{reference.repository_name}/dockerImages/"
        name = f"{prefix}{reference.name}@{image.digest}"
        for other in self._store.list(Kind.IMAGE, f"{prefix}{reference.name}@"):
            if reference.tag in items(other.get("tags")):
                other["tags"].remove(reference.tag)
                self._store.put(Kind.IMAGE, str(other["name"]), other)
        now = timestamp()
        earlier = self._store.get(Kind.IMAGE, name) or {}
        document: Json = {
            "name": name,
            "uri": f"{reference.uri}@{image.digest}",
            "tags": sorted({*items(earlier.get("tags")), reference.tag} - {""}),
            "imageSizeBytes": str(size_bytes),
            "uploadTime": earlier.get("uploadTime", now),
            "updateTime": now,
            "buildTime": now,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "_config": {
                "working_directory": image.stage.working_directory,
                "environment": image.stage.environment,
                "entrypoint": image.stage.entrypoint,
                "command": image.stage.command,
            },
        }
        self._store.put(Kind.IMAGE, name, document)


def _place(source: Path, target: Path) -> int:
    """Copy the files unless they are there; answers their size. An image is there whole or not at all."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        shutil.copytree(source, part, symlinks=True, dirs_exist_ok=True)
        part.rename(target)
    return sum(each.stat().st_size for each in source.rglob("*") if each.is_file())
