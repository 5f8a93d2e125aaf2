"""Set-up for a fresh machine: `python3 -m localcloud.toolchain.setup`. Needs only Python 3.11 and its standard library.

Five steps: the Python packages into `.venv`, those of the policy pack into `policies/.venv`, the Pulumi CLI into the
cache, Google's provider plugin into the cache where it can be downloaded, actionlint into the cache where there is Go.
A second run finds all and ends in a second.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from localcloud.toolchain.actionlint import VERSION as ACTIONLINT
from localcloud.toolchain.actionlint import install_actionlint
from localcloud.toolchain.gcsfuse import VERSION as GCSFUSE
from localcloud.toolchain.gcsfuse import install_gcsfuse
from localcloud.toolchain.google_provider import install_google_provider
from localcloud.toolchain.packages import compile_requirements, install_apart, install_packages
from localcloud.toolchain.pulumi_cli import VERSION, install_pulumi
from localcloud.toolchain.steps import SetupError, fail, say


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--requirements", type=Path, default=Path("requirements/dev.txt"), help="hash-pinned requirements"
    )
    parser.add_argument("--bench", action="store_true", help="only make the benchmarks' environment")
    parser.add_argument("--compile", action="store_true", help="only pin requirements/*.in again")
    arguments = parser.parse_args()
    tree = Path.cwd()
    try:
        if arguments.compile:
            compile_requirements(tree)
        elif arguments.bench:
            say("Python packages of the benchmarks (bench.txt)")
            install_apart(tree, tree / "build" / "bench-venv", tree / "requirements" / "bench.txt")
        else:
            set_up(tree, arguments.requirements)
    except SetupError as error:
        fail(error)


def set_up(tree: Path, requirements: Path) -> None:
    """Install everything that `tree` needs; says what it does and how long each step took.

    Raises:
        SetupError: a step cannot succeed on this machine.
    """
    logs = tree / "build" / "setup"
    started = time.monotonic()
    cpu_torch = os.environ.get("TORCH") == "cpu"
    say(f"[1/6] Python packages ({requirements.name}{', torch for CPU' if cpu_torch else ''})")
    python = install_packages(tree, tree / requirements, cpu_torch=cpu_torch)
    say("[2/6] Python packages of the policy pack")
    install_apart(tree, tree / "policies" / ".venv", tree / "requirements" / "policies.txt")
    say(f"[3/6] Pulumi CLI {VERSION}")
    pulumi = install_pulumi(python, logs)
    say("[4/6] Google provider plugin")
    install_google_provider(pulumi, logs)
    say(f"[5/6] gcsfuse {GCSFUSE}, for the tests through a real bucket mount")
    install_gcsfuse(logs)
    say(f"[6/6] actionlint {ACTIONLINT}")
    install_actionlint(logs)
    say(f"set-up is complete ({time.monotonic() - started:.0f} s)")


if __name__ == "__main__":
    main()
