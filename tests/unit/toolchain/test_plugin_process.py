"""A plugin ends with its engine, even one that was gone before the plugin looked."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

TREE = Path(__file__).parents[3]
PLUGIN = """\
import os, sys, time
engine = os.getpid()
if os.fork():
    os._exit(0)  # gone at once: somebody else is the parent before the plugin looks
while os.getppid() == engine:
    time.sleep(0.01)
from localcloud.toolchain.plugin_process import serve
serve(lambda server: None, cancel=lambda: None, workers=1)
print("ended", file=sys.stderr, flush=True)
"""


def test_a_plugin_whose_engine_never_answers_ends_by_itself() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PLUGIN, address], cwd=TREE, capture_output=True, text=True, timeout=60, check=False
    )
    # The pipes close when the plugin itself has ended, so `run` has waited for it.
    assert done.stderr.endswith("ended\n"), done.stderr
    assert time.monotonic() - began < 30
