"""A container as a command of this machine: image, entry point, environment, mounts."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcloud.build.images import Image
from localcloud.executor.attempt import Command
from localcloud.executor.mounts import ContainerError, Mount, resolve, rewrite
from localcloud.jsontypes import Json, items, obj, objects

_FROM_THIS_MACHINE = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE")
"""All that a task inherits: what the local Python needs to start. No credentials, no settings of the developer."""


def command_for(
    execution: Json,
    index: int,
    attempt: int,
    *,
    image: Image | None,
    buckets_dir: Path,
    scratch: Path,
    url: str,
    secrets: Mapping[str, str | None],
) -> Command:
    """The command of one attempt, with its files prepared under `scratch`. `secrets` are what its variables get that
    refer to one; None: it cannot be read.

    Raises:
        ContainerError: a volume cannot be mounted, or the image has no command.
    """
    container = objects(obj(execution["template"])["containers"])[0]
    mounts = resolve(obj(execution["template"]), buckets_dir, scratch)
    root = scratch / "root"
    if image:
        shutil.copytree(image.root, root, symlinks=True)  # a container's file system is its own, and gone with it
    declared = str(container.get("workingDir") or (image.working_directory if image else ""))
    working_directory = root / declared.strip("/")
    working_directory.mkdir(parents=True, exist_ok=True)
    (scratch / "home").mkdir(parents=True, exist_ok=True)
    (scratch / "tmp").mkdir(exist_ok=True)
    return Command(
        program=_program(container, image, mounts),
        environment={
            **{key: os.environ[key] for key in _FROM_THIS_MACHINE if key in os.environ},
            "HOME": str(scratch / "home"),
            "TMPDIR": str(scratch / "tmp"),
            "STORAGE_EMULATOR_HOST": url,  # Google's storage clients reach this cloud's buckets
            "NO_GCE_CHECK": "true",  # and do not look for a metadata server
            **({key: rewrite(value, mounts) for key, value in image.environment.items()} if image else {}),
            **_declared_environment(container, mounts, secrets),
            "CLOUD_RUN_JOB": str(execution["job"]),
            "CLOUD_RUN_EXECUTION": str(execution["name"]).rsplit("/", 1)[-1],
            "CLOUD_RUN_TASK_INDEX": str(index),
            "CLOUD_RUN_TASK_ATTEMPT": str(attempt),
            "CLOUD_RUN_TASK_COUNT": str(execution["taskCount"]),
        },
        directory=working_directory,
        read_only=[(mount.source, mount.directory) for mount in mounts if mount.source],
    )


def _program(container: Json, image: Image | None, mounts: Sequence[Mount]) -> list[str]:
    """`command` replaces the image's ENTRYPOINT and CMD, `args` its CMD; Python is the one that runs this cloud."""
    command = [str(each) for each in items(container.get("command"))]
    arguments = [str(each) for each in items(container.get("args"))]
    if not command and image:
        command = list(image.entrypoint)
        arguments = arguments or list(image.command)
    program = [rewrite(each, mounts) for each in [*command, *arguments]]
    if not program:
        raise ContainerError(
            f"Image {container['image']!r} has neither ENTRYPOINT nor CMD here and the job declares no command: "
            "nothing to start."
        )
    if Path(program[0]).name in {"python", "python3"}:
        program[0] = sys.executable
    return program


def _declared_environment(
    container: Json, mounts: Sequence[Mount], secrets: Mapping[str, str | None]
) -> dict[str, str]:
    declared: dict[str, str] = {}
    for variable in objects(container.get("env")):
        name = str(variable["name"])
        if "valueSource" in variable:
            reference = obj(obj(variable["valueSource"]).get("secretKeyRef"))
            content = secrets.get(name)
            if content is None:
                raise ContainerError(
                    f'Could not fetch secret "{reference.get("secret")}/versions/{reference.get("version", "latest")}" '
                    f'for environment variable "{name}": it is not there, is disabled, or is no text. '
                    "Instance startup will now abort."
                )
            declared[name] = content
        else:
            declared[name] = rewrite(str(variable.get("value", "")), mounts)
    return declared
