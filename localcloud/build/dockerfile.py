"""A Dockerfile as instructions with their variables filled in; parsing itself is dockerfile-parse's."""

import io
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dockerfile_parse import DockerfileParser

_Parser: Any = DockerfileParser  # its annotations ask for a text file; it reads bytes
_VARIABLE = re.compile(r"\\?\$(?:\{(?P<braced>\w+)(?::(?P<op>[-+])(?P<word>[^}]*))?\}|(?P<plain>\w+))")


class BuildError(Exception):
    """The build fails; the message is its status detail."""


@dataclass(frozen=True)
class Copy:
    """COPY or ADD: sources are paths of the build context, or of the stage named `origin`."""

    sources: Sequence[str]
    target: str
    origin: str = ""
    text: str = ""


@dataclass
class Stage:
    """One FROM and what follows. `steps` holds copies and skipped instructions in order."""

    base: str
    name: str
    steps: list[Copy | str] = field(default_factory=list)
    working_directory: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def parse(text: str, build_arguments: Mapping[str, str]) -> list[Stage]:
    """The stages of a Dockerfile. RUN and what only concerns an engine stays as text: it is not executed here.

    Raises:
        BuildError: it has no FROM, or an instruction that cannot be read.
    """
    structure = _Parser(fileobj=io.BytesIO(text.encode())).structure
    stages: list[Stage] = []
    global_arguments: dict[str, str] = {}
    arguments: dict[str, str] = {}
    for line in structure:
        instruction, value = str(line["instruction"]).upper(), str(line["value"])
        if instruction == "COMMENT":
            continue
        if instruction == "ARG":
            for name, default in _arguments(value, {**global_arguments, **arguments}):
                chosen = build_arguments.get(name, default if default is not None else global_arguments.get(name, ""))
                (arguments if stages else global_arguments)[name] = chosen
            continue
        if instruction == "FROM":
            stages.append(_from(_fill(value, global_arguments), stages))
            arguments = {}
            continue
        if not stages:
            raise BuildError(f"Dockerfile line {line['startline'] + 1}: {instruction} before FROM.")
        _apply(stages[-1], instruction, value, {**arguments, **stages[-1].environment})
    if not stages:
        raise BuildError("The Dockerfile has no FROM instruction.")
    return stages


def _from(value: str, stages: list[Stage]) -> Stage:
    words = [word for word in value.split() if not word.startswith("--")]
    name = words[2] if len(words) == 3 and words[1].upper() == "AS" else str(len(stages))
    earlier = next((stage for stage in stages if stage.name == words[0]), None)
    stage = Stage(base=words[0], name=name)
    if earlier:
        stage.working_directory, stage.environment = earlier.working_directory, dict(earlier.environment)
        stage.entrypoint, stage.command = list(earlier.entrypoint), list(earlier.command)
    return stage


def _apply(stage: Stage, instruction: str, value: str, variables: Mapping[str, str]) -> None:
    match instruction:
        case "WORKDIR":
            path = _fill(value, variables).strip("\"'")
            base = "" if path.startswith("/") else stage.working_directory.rstrip("/")
            stage.working_directory = f"{base}/{path.strip('/')}"
            stage.steps.append(Copy([], stage.working_directory))
        case "ENV":
            stage.environment.update((name, default or "") for name, default in _environment(value, variables))
        case "COPY" | "ADD":
            stage.steps.append(_copy(stage, instruction, value, variables))
        case "ENTRYPOINT":
            stage.entrypoint, stage.command = _command(value), []
        case "CMD":
            stage.command = _command(value)
        case _:
            stage.steps.append(f"{instruction} {_fill(value, variables) if instruction != 'RUN' else value}")


def _copy(stage: Stage, instruction: str, value: str, variables: Mapping[str, str]) -> Copy:
    rest, flags = value.strip(), dict[str, str]()
    while match := re.match(r"--([\w-]+)(?:=(\S+))?\s+", rest):
        flags[match[1]] = _fill(match[2] or "", variables)
        rest = rest[match.end() :]
    if rest.startswith("<<"):
        raise BuildError(f"{instruction} {value}: here-documents are not supported by the local cloud's builds.")
    words = _strings(rest) or shlex.split(rest)
    if len(words) < 2:
        raise BuildError(f"{instruction} {value}: needs at least one source and a target.")
    *sources, target = [_fill(word, variables) for word in words]
    if not target.startswith("/"):
        target = f"{stage.working_directory.rstrip('/')}/{target.removeprefix('./')}"
        target = re.sub(r"/\.$", "/", target)
    return Copy(sources, target, flags.get("from", ""), f"{instruction} {value}")


def _command(value: str) -> list[str]:
    """Exec form as it stands; shell form under /bin/sh, which then is the process that hears signals."""
    return _strings(value) if value.strip().startswith("[") else ["/bin/sh", "-c", value]


def _strings(value: str) -> list[str]:
    if not value.strip().startswith("["):
        return []
    try:
        return [str(each) for each in json.loads(value)]
    except ValueError as error:
        raise BuildError(f"{value}: not a JSON array of strings ({error}).") from error


def _arguments(value: str, variables: Mapping[str, str]) -> list[tuple[str, str | None]]:
    pairs = [word.partition("=") for word in shlex.split(value)]
    return [(name, _fill(default, variables) if sign else None) for name, sign, default in pairs]


def _environment(value: str, variables: Mapping[str, str]) -> list[tuple[str, str | None]]:
    if "=" not in value.split(maxsplit=1)[0]:
        name, _, rest = value.partition(" ")
        return [(name, _fill(rest.strip(), variables))]
    return _arguments(value, variables)


def _fill(text: str, variables: Mapping[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[0].startswith("\\"):
            return match[0][1:]
        value = variables.get(match["braced"] or match["plain"], "")
        if match["op"] == "-":
            return value or match["word"]
        return match["word"] if match["op"] == "+" and value else ("" if match["op"] == "+" else value)

    return _VARIABLE.sub(replace, text)
