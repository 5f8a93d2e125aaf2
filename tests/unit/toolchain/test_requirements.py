"""What the code imports, what `requirements/*.in` names and what docs/dependencies.md explains are one and the same."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud import TREE
from localcloud.toolchain import google_provider, pulumi_cli

REQUIREMENTS = TREE / "requirements"
ROOMS = {
    "app": "worker",
    "bootstrap": "infra",
    "infra": "infra",
    "ops": "infra",
    "localcloud": "dev",
    "tests": "dev",
    "bench": "bench",
    "policies": "policies",
}
OURS = {*ROOMS, "rules"}  # a policy pack is run in its own folder: its modules are `rules...`
IMPORTED_AS = {
    "google-api-core": ("google.api_core",),
    "google-auth": ("google.auth", "google.oauth2"),
    "google-cloud-build": ("google.cloud.devtools",),
    "google-cloud-logging": ("google.cloud.logging", "google.cloud.logging_v2"),
    "google-cloud-run": ("google.cloud.run_v2",),
    "google-cloud-storage": ("google.cloud.storage",),
    "googleapis-common-protos": ("google.rpc",),
    "grpcio": ("grpc",),
    "protobuf": ("google.protobuf",),
    "pyyaml": ("yaml",),
}
"""Where the name of the import is not that of the package."""
ROW = re.compile(r"^\| ([a-z0-9, _-]+) \| (.+) \|$", re.MULTILINE)


def required(name: str) -> set[str]:
    """Packages that a .in file names, those of the files it includes among them."""
    found: set[str] = set()
    for line in (REQUIREMENTS / f"{name}.in").read_text().splitlines():
        if line.startswith("-r "):
            found |= required(line.removeprefix("-r ").removesuffix(".in"))
        elif line and not line.startswith("#"):
            found.add(re.split(r"[=<>]", line)[0].strip())
    return found


def imported(path: Path) -> Iterator[str]:
    """Full names of what a file imports at any depth.

    Left out: its own package's relative imports, and what only a type checker imports.
    """
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


def is_of(name: str, module: str) -> bool:
    return f"{name}.".startswith(f"{module}.")


def is_foreign(name: str) -> bool:
    top = name.partition(".")[0]
    return top not in OURS and top not in sys.stdlib_module_names


def files(room: str) -> list[Path]:
    found = [path for path in (TREE / room).rglob("*.py") if ".venv" not in path.parts]
    return found + ([TREE / "__main__.py"] if room == "infra" else [])


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_packages_that_its_requirements_name(room: str) -> None:
    modules = {
        module for package in required(ROOMS[room]) for module in IMPORTED_AS.get(package, (package.replace("-", "_"),))
    }
    unnamed = {
        f"{path.relative_to(TREE)}: {name}"
        for path in files(room)
        for name in imported(path)
        if is_foreign(name) and not any(is_of(name, module) for module in modules)
    }
    assert files(room)
    assert not unnamed


def test_set_up_runs_on_a_bare_python() -> None:
    """Nothing that `python3 -m localcloud.toolchain.setup` can reach is outside the standard library."""
    reached, waiting = set[Path](), [TREE / "localcloud/toolchain/setup.py"]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        for name in imported(path):
            assert not is_foreign(name), f"{path.relative_to(TREE)} imports {name}"
            module = TREE.joinpath(*name.split("."))
            candidates = (module.with_suffix(".py"), module.parent.with_suffix(".py"), module / "__init__.py")
            waiting += [each for each in candidates if each.is_file()]
    assert TREE / "localcloud/toolchain/packages.py" in reached


def test_every_package_that_is_named_is_explained_and_no_other() -> None:
    text = (TREE / "docs/dependencies.md").read_text()
    explained = {name for names, _ in ROW.findall(text) for name in names.split(", ")} - {"package"}
    named = set[str]().union(*(required(path.stem) for path in REQUIREMENTS.glob("*.in")))
    assert explained == named


def test_a_package_is_explained_under_a_file_that_names_it() -> None:
    text = (TREE / "docs/dependencies.md").read_text()
    for section in text.split("\n## ")[1:]:
        (name,) = re.findall(r"`requirements/(\w+)\.in`", section.splitlines()[0])
        rows = {each for names, _ in ROW.findall(section) for each in names.split(", ")} - {"package"}
        assert rows, section
        assert rows <= required(name) | (required("bootstrap") if name == "dev" else set()), section


def pinned(name: str, package: str) -> str:
    (version,) = re.findall(rf"^{package}==(\S+)$", (REQUIREMENTS / f"{name}.in").read_text(), re.MULTILINE)
    return version


def test_the_provider_plugin_is_that_of_the_sdk() -> None:
    assert pinned("infra", "pulumi-gcp") == google_provider.VERSION


def test_no_engine_older_than_the_sdk_is_used() -> None:
    sdk = pinned("infra", "pulumi")
    assert tuple(int(part) for part in sdk.split(".")) == pulumi_cli.MINIMUM
    assert pinned("policies", "pulumi") == sdk
