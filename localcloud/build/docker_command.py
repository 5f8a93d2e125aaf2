"""The `docker build` of a build step, as far as its arguments matter here; any other is refused by name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from localcloud.build.dockerfile import BuildError

_WITH_VALUE = frozenset({"--cache-from", "--platform", "--label", "--network", "--progress", "--shm-size"})
_WITHOUT_VALUE = frozenset({"--pull", "--no-cache", "--quiet", "-q", "--rm"})
"""Flags that change nothing about an image that is only copied together."""


@dataclass(frozen=True)
class DockerBuild:
    """The arguments of `docker build` that matter here. Paths are relative to the step's directory."""

    tags: list[str]
    context: str
    dockerfile: str
    arguments: dict[str, str] = field(default_factory=dict)


def docker_build(arguments: Sequence[str], step: int) -> DockerBuild:
    """What a step's arguments (`build -t IMAGE ... CONTEXT`) ask for.

    Raises:
        BuildError: another command, a flag that is not known here, or no image or context; names the step.
    """
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
            case _ if flag in _WITH_VALUE:
                if not sign:
                    next(rest, "")
            case _ if flag.startswith("-"):
                if flag not in _WITHOUT_VALUE:
                    raise BuildError(f"Step {step}: `docker build {flag}` is not supported by the local cloud.")
            case _:
                context = each
    if not context or not tags:
        raise BuildError(f"Step {step}: docker build needs -t IMAGE and a context directory.")
    return DockerBuild(tags, context, dockerfile, build_arguments)
