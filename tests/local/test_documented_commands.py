"""The commands in docs/local-cloud.md are those of the command line, with every option and no other."""

import re

import pytest
import typer
from typer.testing import CliRunner

from localcloud import TREE
from localcloud.cli import app

DOCUMENT = (TREE / "docs/local-cloud.md").read_text()
BLOCK = re.sub(r"#.*", "", DOCUMENT[DOCUMENT.index("    python -m localcloud") : DOCUMENT.index("All take `--port`")])
USES = {use.split()[0]: set(re.findall(r"--[a-z-]+", use)) for use in BLOCK.split("python -m localcloud ")[1:]}
COMMANDS = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]


def test_every_command_is_in_the_document() -> None:
    assert USES.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_command_are_those_in_the_document(name: str) -> None:
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert "--port" in options
    assert USES[name] | {"--port"} == options


@pytest.mark.parametrize("name", COMMANDS)
def test_a_port_that_cannot_be_is_wrong_use(name: str) -> None:
    done = CliRunner().invoke(app, [name, "--port", "99999"])
    assert (done.exit_code, "65535" in done.output) == (2, True)
