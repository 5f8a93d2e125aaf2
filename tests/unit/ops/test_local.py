"""`gpujob local env`: lines that a shell can load, now and later."""

import os
import subprocess

from ops.local import export_lines


def test_a_shell_that_loads_the_lines_has_the_values():
    environment = {"PATH": "/tool chain/bin:/venv/bin:/usr/bin:/bin", "PULUMI_BACKEND_URL": "file:///a b/$HOME/'state'"}
    script = "\n".join(
        [*export_lines(environment, {"PATH": "/usr/bin:/bin"}), 'echo "$PATH"', 'echo "$PULUMI_BACKEND_URL"']
    )
    done = subprocess.run(
        ["sh", "-c", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == list(environment.values())


def test_loading_them_later_keeps_what_path_has_become():
    lines = export_lines({"PATH": f"/tools{os.pathsep}/bin"}, {"PATH": "/bin"})
    assert lines == ['export PATH=/tools:"$PATH"']


def test_a_path_of_its_own_is_given_whole():
    assert export_lines({"PATH": "/only"}, {"PATH": "/bin"}) == ["export PATH=/only"]
