"""The worker's exit codes, as the commands explain them."""

from app.contract import ExitCode
from ops.text import EXIT_CODES


def test_every_exit_code_of_the_worker_has_a_meaning_here():
    assert set(EXIT_CODES) == {int(code) for code in ExitCode}
