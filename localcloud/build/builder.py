"""Cloud Build: from an uploaded source to an image in the local registry, with the log and the verdict that Cloud
Build gives."""

import asyncio
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from localcloud.build import snapshot
from localcloud.build.dockerfile import BuildError, Stage
from localcloud.build.images import Images, Reference, parse
from localcloud.kinds import Kind
from localcloud.jsontypes import Json, items, obj, objects, strings
from localcloud.logs.store import LogStore
from localcloud.resources import timestamp
from localcloud.settings import Settings
from localcloud.store import Store



@dataclass
class _Built:
    """A local image between `docker build` and the push."""

    root: Path
    stage: Stage
    digest: str


@dataclass(frozen=True)
class _DockerBuild:
    """The arguments of `docker build` that matter here."""

    tags: list[str]
    context: str
    dockerfile: str
    arguments: dict[str, str] = field(default_factory=dict)


class Builder:
    """Runs builds one after another: they only move files."""

    def __init__(self, settings: Settings, store: Store, logs: LogStore, images: Images) -> None:
        self._settings = settings
        self._store = store
        self._logs = logs
        self._images = images
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
                pushed = await asyncio.to_thread(self._build, build, work)
                build["results"] = {"images": [self._push(build, *each) for each in pushed]}
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

    def _build(self, build: Json, work: Path) -> list[tuple[str, _Built]]:
        """Everything up to the push. Runs in a thread: touches files and the log only."""
        variables = {
            "PROJECT_ID": str(build["projectId"]),
            "BUILD_ID": str(build["id"]),
            "LOCATION": str(build["name"]).split("/")[3],
            **strings(build.get("substitutions")),
        }
        source = work / "source"
        self._fetch(build, source)
        local: dict[str, _Built] = {}
        wanted = [_substitute(str(each), variables) for each in items(build.get("images"))]
        for number, step in enumerate(objects(build.get("steps"))):
            arguments = [_substitute(str(each), variables) for each in items(step.get("args"))]
            program = str(step.get("name", "")).rsplit("/", 1)[-1].split(":")[0]
            if program != "docker" or step.get("entrypoint", "docker") != "docker" or not arguments:
                raise BuildError(
                    f"Step {number} ({step.get('name')!r}) is not supported by the local cloud: it runs steps of "
                    "gcr.io/cloud-builders/docker with `build` or `push`. The build was not started."
                )
            self._say(build, f"Step #{number}: docker {' '.join(arguments)}")
            if arguments[0] == "push":
                wanted += arguments[1:2]
                continue
            command = _docker_build(arguments, number)
            context = source / str(step.get("dir", "")) / command.context
            file = (
                context / "Dockerfile"
                if not command.dockerfile
                else source / str(step.get("dir", "")) / command.dockerfile
            )
            if not file.is_file():
                raise BuildError(f"Step {number}: no Dockerfile at {file.relative_to(source)} in the uploaded source.")
            root, stage, digest = snapshot.build(
                context, file, command.arguments, work / f"step-{number}", lambda text: self._say(build, text)
            )
            self._say(build, f"Successfully built {digest}")
            local.update(dict.fromkeys(command.tags, _Built(root, stage, digest)))
        missing = [name for name in wanted if name not in local]
        if missing:
            raise BuildError(f"An image to push was not built by any step: {', '.join(missing)}.")
        return [(name, local[name]) for name in dict.fromkeys(wanted)]

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
                tar.extractall(target, filter="data")
        except tarfile.TarError as error:
            raise BuildError(
                f"could not unpack gs://{bucket}/{name}: {error}. It must be a .tar.gz archive."
            ) from error

    def _push(self, build: Json, name: str, built: _Built) -> Json:
        reference = parse(name)
        if reference is None:
            raise BuildError(
                f"The push refers to {name!r}; the local registry serves "
                "LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME only."
            )
        if self._store.get(Kind.REPOSITORY, reference.repository_name) is None:
            raise BuildError(
                f"failed to push because we ran into an error: name unknown: Repository {reference.repository!r} "
                "not found "
                f"in {reference.project}/{reference.location}."
            )
        self._say(build, f"PUSH\nPushing {name}")
        target = self._settings.images_dir / built.digest.removeprefix("sha256:")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(built.root, target.with_suffix(".part"), symlinks=True, dirs_exist_ok=True)
            target.with_suffix(".part").rename(target)
        self._record(reference, built, target)
        self._say(build, f"{reference.tag}: digest: {built.digest}")
        return {
            "name": name,
            "digest": built.digest,
            "pushTiming": {"startTime": build["startTime"], "endTime": timestamp()},
        }

    def _record(self, reference: Reference, built: _Built, root: Path) -> None:
        """The registry's document; a tag belongs to one digest of a package at a time."""
        prefix = f"{reference.repository_name}/dockerImages/"
        name = f"{prefix}{reference.name}@{built.digest}"
        for other in self._store.list(Kind.IMAGE, f"{prefix}{reference.name}@"):
            if reference.tag in items(other.get("tags")):
                other["tags"].remove(reference.tag)
                self._store.put(Kind.IMAGE, str(other["name"]), other)
        now = timestamp()
        earlier = self._store.get(Kind.IMAGE, name) or {}
        image: Json = {
            "name": name,
            "uri": f"{reference.uri}@{built.digest}",
            "tags": sorted({*items(earlier.get("tags")), reference.tag} - {""}),
            "imageSizeBytes": str(sum(each.stat().st_size for each in root.rglob("*") if each.is_file())),
            "uploadTime": earlier.get("uploadTime", now),
            "updateTime": now,
            "buildTime": now,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "_config": {
                "working_directory": built.stage.working_directory,
                "environment": built.stage.environment,
                "entrypoint": built.stage.entrypoint,
                "command": built.stage.command,
            },
        }
        self._store.put(Kind.IMAGE, name, image)


def _substitute(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(
        r"\$(?:\{(\w+)\}|([A-Z_][A-Z0-9_]*))", lambda match: variables.get(match[1] or match[2], match[0]), text
    )


def _docker_build(arguments: list[str], step: int) -> _DockerBuild:
    if arguments[0] != "build":
        raise BuildError(
            f"Step {step}: `docker {arguments[0]}` is not supported by the local cloud; `build` and `push` are."
        )
    tags: list[str] = []
    build_arguments: dict[str, str] = {}
    dockerfile, context = "", ""
    rest: Iterator[str] = iter(arguments[1:])
    for each in rest:
        flag, sign, value = each.partition("=")
        match flag:
            case "-t" | "--tag":
                tags.append(value if sign else next(rest, ""))
            case "-f" | "--file":
                dockerfile = value if sign else next(rest, "")
            case "--build-arg":
                name, _, given = (value if sign else next(rest, "")).partition("=")
                build_arguments[name] = given
            case "--cache-from" | "--platform" | "--label" | "--network" | "--progress" | "--shm-size":
                if not sign:
                    next(rest, "")
            case _ if flag.startswith("-"):
                if flag not in {"--pull", "--no-cache", "--quiet", "-q", "--rm"}:
                    raise BuildError(f"Step {step}: `docker build {flag}` is not supported by the local cloud.")
            case _:
                context = each
    if not context or not tags:
        raise BuildError(f"Step {step}: docker build needs -t IMAGE and a context directory.")
    return _DockerBuild(tags, context, dockerfile, build_arguments)
