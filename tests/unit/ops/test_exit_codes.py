"""Exit codes: the worker's, as the commands explain them, and the commands' own, as the documents explain them."""

import re
from pathlib import Path

from app.contract import ExitCode
from ops.errors import OpsError
from ops.text import EXIT_CODES


def test_every_exit_code_of_the_worker_has_a_meaning_here():
    assert set(EXIT_CODES) == {int(code) for code in ExitCode}


def test_the_documented_exit_codes_are_those_of_the_errors():
    page = (Path(__file__).parents[3] / "docs" / "operate.md").read_text()
    documented = dict(re.findall(r"^\| (\d+) \| (.*) \|$", page, re.MULTILINE))
    raised = {str(error.exit_code): error.meaning for error in OpsError.__subclasses__()}
    assert documented == {"0": "done", **raised, "130": "Ctrl-C"}
