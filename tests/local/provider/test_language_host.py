"""Programs run by the language host: their output, their errors, their configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.local.provider.support import Engine

pytestmark = [pytest.mark.slow, pytest.mark.engine]
PROGRAM = """
import os
import pulumi
import helper
print("preview" if helper.DRY_RUN else "update", "of the program")
config = pulumi.Config()
pulumi.export("plain", config.require("plain"))
pulumi.export("secret", config.require_secret("hush"))
pulumi.export("stack", pulumi.get_stack())
pulumi.export("project", pulumi.get_project())
pulumi.export("organization", pulumi.get_organization())
pulumi.export("root", pulumi.runtime.get_root_directory())
pulumi.export("folder", os.getcwd())
if os.environ.get("FAIL"):
    helper.fail()
"""
HELPER = """
import pulumi
DRY_RUN = pulumi.runtime.is_dry_run()
def fail():
    raise ValueError("the program's own words")
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(tmp_path / "s", PROGRAM, "http://127.0.0.1:9")
    (engine.folder / "program" / "helper.py").write_text(HELPER)
    document = yaml.safe_load(engine.configuration.read_text())
    document["config"]["small:plain"] = "text"
    engine.configuration.write_text(json.dumps(document))
    engine.run("config", "set", "--secret", "hush", "quiet")
    return engine


def test_a_program_gets_its_configuration_and_both_runs_import_it_afresh(engine: Engine) -> None:
    shown = engine.run("up", "--yes")
    assert "preview of the program" in shown
    assert "update of the program" in shown
    assert "secret      : [secret]" in shown
    folder = str(engine.folder / "program")
    assert engine.outputs() == {
        "plain": "text",
        "secret": "[secret]",
        "stack": "dev",
        "project": "small",
        "organization": "organization",
        "root": folder,
        "folder": folder,
    }


def test_an_exception_is_shown_from_the_programs_first_own_line(engine: Engine) -> None:
    shown = engine.run("preview", expect=1, FAIL="yes")
    trace = shown[shown.rindex("Program failed with an unhandled exception") :]
    lines = [line.strip() for line in trace.splitlines()]
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[2].startswith(f'File "{engine.folder / "program" / "__main__.py"}", line ')
    assert "ValueError: the program's own words" in lines
    assert "language_host" not in shown
    assert "runpy" not in shown


def test_a_syntax_error_names_its_file_and_line(engine: Engine) -> None:
    (engine.folder / "program" / "helper.py").write_text("def broken(:\n")
    shown = engine.run("preview", expect=1)
    assert 'helper.py", line 1' in shown
    assert "SyntaxError" in shown
