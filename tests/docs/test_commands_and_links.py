"""Every command, link, setting and code block in the documents is one that exists."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml
from click.testing import CliRunner

from app.session import session
from ops.cli import app as gpujob

TREE = Path(__file__).parents[2]
DOCUMENTS = [TREE / "README.md", *sorted((TREE / "docs").glob("*.md"))]
COMMAND = typer.main.get_command(gpujob)


def named(path: Path) -> str:
    return str(path.relative_to(TREE))


def code_in(path: Path) -> Iterator[str]:
    """Inline code, and the lines of indented and fenced blocks without their comments."""
    text = path.read_text()
    yield from re.findall(r"`([^`\n]+)`", text)
    for line in text.splitlines():
        if line.startswith("    "):
            yield from re.split(r"&&|;|\|\|| \| ", line.split("  #")[0])


def commands(path: Path, program: str) -> list[str]:
    found = (code.strip() for code in code_in(path))
    return sorted({code for code in found if re.match(rf"{program}\s", code)})


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_make_target_exists(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (TREE / "Makefile").read_text(), re.MULTILINE))
    for command in commands(path, "make"):
        words = [word for word in command.split()[1:] if "=" not in word and not word.startswith("-")]
        assert set(words[:1]) <= targets, command


def words_of(command: str) -> list[str]:
    """The words up to the first one that stands for something else; alternatives are spelled a|b."""
    words = shlex.split(command.replace("\\|", "|"), comments=True)[1:]
    return [word for word in words if not re.match(r"^[\[<$.]", word)]


def helps(words: list[str]) -> Iterator[tuple[list[str], str]]:
    """The subcommands that `words` name, with the help of each."""
    path: list[list[str]] = [[]]
    for word in words:
        if word.startswith("-"):
            break
        choices = [choice for choice in word.split("|") if choice and choice != "..."]
        grown = [[*prefix, choice] for prefix in path for choice in choices]
        runnable = [prefix for prefix in grown if CliRunner().invoke(COMMAND, [*prefix, "--help"]).exit_code == 0]
        if len(path) == 1 and not path[0] and not runnable:
            raise AssertionError(f"gpujob has no command {word}")
        if not runnable or runnable == path:
            break
        path = runnable
        if not any("COMMAND" in CliRunner().invoke(COMMAND, [*prefix, "--help"]).output for prefix in path):
            break
    for prefix in path:
        yield prefix, CliRunner().invoke(COMMAND, [*prefix, "--help"], terminal_width=200).output


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_gpujob_command_and_flag_exists(path: Path) -> None:
    for command in commands(path, "gpujob"):
        words = words_of(command)
        flags = [word.split("=")[0].strip("[]") for word in words if word.startswith("-") and word != "--"]
        for prefix, text in helps(words):
            if "--arg" in flags:  # what follows belongs to the worker
                flags = ["--arg"]
            for flag in flags:
                assert flag in text or flag == "--help", f"{command}: gpujob {' '.join(prefix)} has no {flag}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_link_leads_to_a_file(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (path.parent / target).exists(), target


def anchors(path: Path) -> set[str]:
    """Of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_link_into_a_document_leads_to_a_heading(path: Path) -> None:
    for target, anchor in re.findall(r"\]\(([\w./-]*\.md)?#([^)]*)\)", path.read_text()):
        assert anchor in anchors(path.parent / target if target else path), f"{target}#{anchor}"


MADE_LATER = {"policies/.venv", "bootstrap/Pulumi.home.yaml"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_file_and_folder_of_the_tree_that_is_named_is_there(path: Path) -> None:
    rooms = "|".join(sorted(re.escape(room.name) for room in TREE.iterdir() if room.is_dir() and room.name != "build"))
    for name in re.findall(rf"`((?:{rooms})/[\w./*-]*)`", path.read_text()):
        assert name in MADE_LATER or list(TREE.glob(name.rstrip("/"))), name


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_setting_that_is_named_is_declared(path: Path) -> None:
    declared = set(yaml.safe_load((TREE / "Pulumi.yaml").read_text())["config"])
    for key in re.findall(r"\bgpujob:([a-z][a-zA-Z]+)\b", path.read_text()):
        assert f"gpujob:{key}" in declared | {"gpujob:infra"}, key


def test_the_readmes_five_lines_use_the_session_as_it_is() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (TREE / "README.md").read_text(), re.DOTALL)
    tree = ast.parse(textwrap.dedent(block))
    (call,) = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "session"
    ]
    assert {keyword.arg for keyword in call.keywords} <= set(inspect.signature(session).parameters)


def test_the_readme_shows_a_real_rehearsal() -> None:
    (shown,) = re.findall(r"<!-- rehearsal -->(.*?)<!-- /rehearsal -->", (TREE / "README.md").read_text(), re.DOTALL)
    for part in ("pulumi up", "gpujob local preempt", "gpujob local kill", "steps lost", "every promise held"):
        assert part in shown, part


@pytest.mark.parametrize("path", [*DOCUMENTS, TREE / "Makefile", TREE / "Dockerfile"], ids=named)
def test_no_document_names_a_folder_of_some_machine(path: Path) -> None:
    assert not re.search(r"/(root|work|home)/\w+", path.read_text())
