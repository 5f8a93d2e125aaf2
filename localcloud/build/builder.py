"""Cloud Build: from an uploaded source to an image in the local registry, with Cloud Build's own log and verdict."""

import asyncio
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from localcloud.build import snapshot
from localcloud.build.docker_command import docker_build
from localcloud.build.dockerfile import BuildError
from localcloud.build.local_registry import LocalRegistry
from localcloud.build.snapshot import Snapshot
from localcloud.jsontypes import Json, items, obj, objects, strings
from localcloud.kinds import Kind
from localcloud.logs.store import LogStore
from localcloud.resources import timestamp
from localcloud.settings import Settings
from localcloud.store import Store


class Builder:
    """Runs builds one after another: they only move files."""

    def __init__(self, settings: Settings, store: Store, logs: LogStore) -> None:
        self._settings = settings
        self._store = store
        self._logs = logs
        self._registry = LocalRegistry(store, settings.images_dir)
        self._tasks: set[asyncio.Task[None]] = set()
        self._one = asyncio.Lock()

    def start(self, build: Json) -> None:
        """Begin a recorded build."""
        task = asyncio.ensure_future(self._run(build))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def recover(self) -> None:
        """Builds that an earlier server left unfinished have failed."""
        for build in self._store.list(Kind.BUILD):
            if "finishTime" not in build:
                self._end(build, "INTERNAL_ERROR", "The local cloud was stopped during the build. Submit it again.")

    async def _run(self, build: Json) -> None:
        async with self._one:
            build.update(status="WORKING", startTime=timestamp())
            self._store.put(Kind.BUILD, str(build["id"]), build)
            work = Path(tempfile.mkdtemp(prefix="build-", dir=self._settings.state_dir))
            try:
                built = await asyncio.to_thread(self._build, build, work)
                build["results"] = {"images": [await self._push(build, *each) for each in built.items()]}
            except BuildError as error:
                self._say(build, f"ERROR: {error}", "ERROR")
                self._end(build, "FAILURE", str(error))
            except Exception as error:  # a build must end, whatever its source does to us
                self._say(build, f"ERROR: {error!r}", "ERROR")
                self._end(build, "INTERNAL_ERROR", f"{type(error).__name__}: {error}")
            else:
                self._say(build, "DONE")
                self._end(build, "SUCCESS", "")
            finally:
                await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)

    def _end(self, build: Json, status: str, detail: str) -> None:
        build.update(status=status, finishTime=timestamp())
        if detail:
            build["statusDetail"] = detail
            build["failureInfo"] = {"type": "USER_BUILD_STEP", "detail": detail}
        self._store.put(Kind.BUILD, str(build["id"]), build)

    def _say(self, build: Json, text: str, severity: str = "INFO") -> None:
        project = str(build["projectId"])
        for line in text.splitlines():
            entry: Json = {
                "logName": f"projects/{project}/logs/cloudbuild",
                "severity": severity,
                "textPayload": line,
                "resource": {
                    "type": "build",
                    "labels": {"build_id": build["id"], "build_trigger_id": "", "project_id": project},
                },
                "labels": {"build_step": "MAIN"},
            }
            self._logs.append(project, entry)

    def _build(self, build: Json, work: Path) -> dict[str, Snapshot]:
        """Everything up to the push: the images to push by their names.

        Runs in a thread: touches files and the log only.
        """
        variables = {
            "PROJECT_ID": str(build["projectId"]),
            "BUILD_ID": str(build["id"]),
            "LOCATION": str(build["name"]).split("/")[3],
            **strings(build.get("substitutions")),
        }
        source = work / "source"
        self._fetch(build, source)
        local: dict[str, Snapshot] = {}
        wanted = [_substitute(str(each), variables) for each in items(build.get("images"))]
        for number, step in enumerate(objects(build.get("steps"))):
            arguments = [_substitute(str(each), variables) for each in items(step.get("args"))]
            _check_builder(step, arguments, number)
            self._say(build, f"Step #{number}: docker {' '.join(arguments)}")
            if arguments[0] == "push":
                wanted += arguments[1:2]
            else:
                local |= self._step(build, number, arguments, source=source / str(step.get("dir", "")), work=work)
        missing = [name for name in wanted if name not in local]
        if missing:
            raise BuildError(f"An image to push was not built by any step: {', '.join(missing)}.")
        return {name: local[name] for name in wanted}

    def _step(
        self, build: Json, number: int, arguments: list[str], *, source: Path, work: Path
    ) -> dict[str, Snapshot]:
        """One `docker build`: its image by each of the tags."""
        command = docker_build(arguments, number)
        context = source / command.context
        dockerfile = source / command.dockerfile if command.dockerfile else context / "Dockerfile"
        if not dockerfile.is_file():
            shown = dockerfile.relative_to(work / "source")
            raise BuildError(f"Step {number}: no Dockerfile at {shown} in the uploaded source. Nothing was pushed.")
        image = snapshot.build(
            context, dockerfile, command.arguments, work / f"step-{number}", lambda text: self._say(build, text)
        )
        self._say(build, f"Successfully built {image.digest}")
        return dict.fromkeys(command.tags, image)

    def _fetch(self, build: Json, target: Path) -> None:
        source = obj(obj(build.get("source")).get("storageSource"))
        if not source:
            raise BuildError(
                "The build has no source.storageSource; the local cloud builds from an archive in a bucket only."
            )
        bucket, name = str(source.get("bucket", "")), str(source.get("object", ""))
        archive = self._settings.buckets_dir / bucket / name
        self._say(build, f"FETCHSOURCE\nFetching storage object: gs://{bucket}/{name}")
        if not archive.is_file():
            raise BuildError(f"could not resolve source: gs://{bucket}/{name} does not exist.")
        target.mkdir()
        try:
            with tarfile.open(archive) as tar:
                _extract(tar, target)
        except tarfile.TarError as error:
            raise BuildError(
                f"could not unpack gs://{bucket}/{name}: {error}. It must be a .tar.gz archive."
            ) from error

    async def _push(self, build: Json, name: str, image: Snapshot) -> Json:
        self._say(build, f"PUSH\nPushing {name}")
        began = timestamp()
        reference = await self._registry.push(name, image)
        self._say(build, f"{reference.tag}: digest: {image.digest}")
        return {"name": name, "digest": image.digest, "pushTiming": {"startTime": began, "endTime": timestamp()}}


def _extract(tar: tarfile.TarFile, target: Path) -> None:
    """Unpack nothing outside of `target`. Python 3.11.0 to 3.11.3, Debian 12's among them, have no filter for that."""
    if hasattr(tarfile, "data_filter"):
        tar.extractall(target, filter="data")
        return
    for member in tar.getmembers():
        inside = (target / member.name).resolve().is_relative_to(target.resolve())
        if not inside or not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name} is no plain file or folder below the archive's root")
    tar.extractall(target)  # noqa: S202 - each member was looked at above


def _check_builder(step: Json, arguments: list[str], number: int) -> None:
    program = str(step.get("name", "")).rsplit("/", 1)[-1].split(":")[0]
    if program != "docker" or step.get("entrypoint", "docker") != "docker" or not arguments:
        raise BuildError(
            f"Step {number} ({step.get('name')!r}) is not supported by the local cloud: it runs steps of "
            "gcr.io/cloud-builders/docker with `build` or `push`. Nothing was pushed."
        )


def _substitute(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(
        r"\$(?:\{(\w+)\}|([A-Z_][A-Z0-9_]*))", lambda match: variables.get(match[1] or match[2], match[0]), text
    )
