"""The README's 'Rehearse by hand' block, run as it stands, in a copy of the tree and on a port of the test's own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from localcloud.ports import free_port
from ops.rehearsal.stack import write_local_config

TREE = Path(__file__).parents[2]
pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture
def port() -> int:
    return free_port()


def test_the_block_runs_from_top_to_bottom(tmp_path: Path, port: int) -> None:
    copy_of_the_tree(tmp_path, port)
    section = (TREE / "README.md").read_text().split("### Rehearse by hand")[1].split("\n## ")[0]
    lines = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    on_port = rf"gpujob local \1 --port {port}"
    script = "\n".join(re.sub(r"gpujob local (env|start|stop|preempt)", on_port, line) for line in lines)
    # A person is asked "yes" by up and destroy.
    script = re.sub(r"pulumi (up|destroy) ", r"pulumi \1 --yes --skip-preview ", script)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "GPUJOB_STACK"))}
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        assert "Received SIGTERM signal from platform. Initiating graceful shutdown..." in done.stdout
        assert "Finished at step 60" in done.stdout
        assert re.search(r"- \d+ deleted", done.stdout)
    finally:
        stop = [TREE / ".venv/bin/gpujob", "local", "stop", "--port", str(port)]
        subprocess.run(stop, cwd=tmp_path, env=environment, capture_output=True, check=False)


def copy_of_the_tree(target: Path, port: int) -> None:
    """The tracked files, the environment as a link, the local stack's endpoints at `port`."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (TREE / name).is_file() and not name.startswith("tests/"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((TREE / name).read_bytes())
    (target / ".venv").symlink_to(TREE / ".venv")
    write_local_config(TREE / "Pulumi.local.yaml", target / "Pulumi.local.yaml", port)
