"""Volumes on this machine: which directory stands behind a mount path, and the container's text rewritten to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcloud.jsontypes import Json, items, obj, objects


class ContainerError(Exception):
    """A container that cannot be started; the message is what the execution fails with."""


@dataclass(frozen=True)
class Mount:
    """One mount of the container."""

    path: str
    """Inside the container."""
    directory: Path
    """On this machine: what paths below `path` are rewritten to."""
    source: Path | None = None
    """Directory to bind, read-only, at `directory`; None where `directory` is the data itself."""


def resolve(template: Json, buckets_dir: Path, scratch: Path) -> list[Mount]:
    """The mounts of the template's first container. Longest paths first, so that nested mounts win.

    Raises:
        ContainerError: the bucket does not exist, or the volume is of a kind that is not served here.
    """
    volumes = {str(volume["name"]): volume for volume in objects(template.get("volumes"))}
    mounts: list[Mount] = []
    for mount in objects(objects(template["containers"])[0].get("volumeMounts")):
        name, path = str(mount["name"]), str(mount["mountPath"]).rstrip("/")
        mounts.append(_mount(name, path, volumes[name], buckets_dir, scratch))
    return sorted(mounts, key=lambda mount: -len(mount.path))


def _mount(name: str, path: str, volume: Json, buckets_dir: Path, scratch: Path) -> Mount:
    if "emptyDir" in volume:
        directory = scratch / "volumes" / name
        directory.mkdir(parents=True, exist_ok=True)
        return Mount(path, directory)
    gcs = obj(volume.get("gcs"))
    if not gcs:
        kinds = ", ".join(key for key in volume if key != "name") or "nothing"
        raise ContainerError(
            f"Volume {name!r} is of a kind that the local cloud does not mount ({kinds}); gcs and emptyDir are."
        )
    bucket = str(gcs["bucket"])
    directory = buckets_dir / bucket
    if not directory.is_dir():
        raise ContainerError(
            f"Mounting volume {name!r} at {path} failed: the Cloud Storage bucket {bucket!r} does not exist. "
            "No container was started. Create the bucket, or correct the volume, and run the job again."
        )
    options = {str(each).partition("=")[0]: str(each).partition("=")[2] for each in items(gcs.get("mountOptions"))}
    if options.get("only-dir"):
        directory = directory / options["only-dir"].strip("/")
        directory.mkdir(parents=True, exist_ok=True)
    if gcs.get("readOnly") or (options.get("ro") == "" and "ro" in options):
        target = scratch / "readonly" / name
        target.mkdir(parents=True, exist_ok=True)
        return Mount(path, target, source=directory)
    return Mount(path, directory)


def rewrite(text: str, mounts: Sequence[Mount]) -> str:
    """The text with a leading mount path replaced; text that only contains one further on stays as it is."""
    for mount in mounts:
        if text == mount.path or text.startswith(mount.path + "/"):
            return str(mount.directory) + text[len(mount.path) :]
    return text
