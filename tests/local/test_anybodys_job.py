"""The local cloud runs anybody's job: the parts that serve and run it do not know this project."""

import tomllib

import pytest

from localcloud import TREE

PROJECT = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]["name"]


@pytest.mark.parametrize("part", ["server", "executor", "build", "logs"])
def test_this_projects_name_does_not_occur(part: str) -> None:
    files = sorted((TREE / "localcloud" / part).rglob("*.py"))
    assert files
    assert [path.name for path in files if PROJECT in path.read_text().lower()] == []


def test_the_document_names_the_part_that_does_know_it() -> None:
    own = sorted(path for path in (TREE / "localcloud/toolchain").glob("*.py") if PROJECT in path.read_text().lower())
    assert own
    assert "`localcloud/toolchain`" in (TREE / "docs/local-cloud.md").read_text()
