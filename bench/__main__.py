"""`python -m bench`: measure everything, write build/bench.json, print the table. `--quick` is a smoke test."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import machine, table
from bench.rows import Row, missed, unmeasured

SUITES = ("save", "restore", "small", "resume", "loop", "writer", "blocked", "memory", "start")
DEADLINE_S = 3600
FREE_BYTES = 12 * 2**30


def main() -> int:
    arguments = _parse()
    directory: Path = arguments.dir
    directory.mkdir(parents=True, exist_ok=True)
    if not arguments.quick and shutil.disk_usage(directory).free < FREE_BYTES:
        print(f"{directory} has less than {FREE_BYTES >> 30} GiB free; give another with --dir, or use --quick.")
        return 2
    before = machine.describe(directory)
    rows, failed = list[Row](), list[str]()
    for suite in arguments.only or SUITES:
        began = time.monotonic()
        print(f"{suite:8}", end=" ", flush=True)
        found = _in_a_process(suite, directory, quick=arguments.quick, threads=arguments.threads)
        print(f"{time.monotonic() - began:4.0f} s" if found else f"failed: see {directory / suite}.log", flush=True)
        if found is None:
            failed.append(suite)
            found = [unmeasured(suite, "", "", None, f"the suite failed: see {directory / suite}.log")]
        rows += found
        _write(rows, arguments.out)  # after each suite: an interrupted run keeps what it has
    facts = before | {"load_average_after": machine.load(), "quick": arguments.quick, "threads": arguments.threads}
    about = arguments.out.with_name(f"{arguments.out.stem}-machine.json")
    about.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    print("\n" + table.render(rows, markdown=arguments.markdown))
    print(f"\n{', '.join(f'{key} {value}' for key, value in facts.items())}")
    below = missed(rows)
    print(f"{len(below)} bars missed, {sum(row.holds is True for row in rows)} hold. Rows: {arguments.out}")
    return 1 if failed or (arguments.strict and below) else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, few samples: does it run? (its ratios say little)"
    )
    parser.add_argument("--dir", type=Path, default=Path("build/bench"), help="a directory on the disk to measure")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"), help="where the rows go")
    parser.add_argument("--only", nargs="+", choices=SUITES, help="these suites only")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count() or 1, help="that torch computes with (default: all cores)"
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--markdown", action="store_true", help="the table in Markdown, for docs/performance.md")
    return parser.parse_args()


def _write(rows: list[Row], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


def _in_a_process(suite: str, directory: Path, *, quick: bool, threads: int) -> list[Row] | None:
    """Its rows, or None when it failed; what it printed is in `directory`/SUITE.log either way."""
    with TemporaryDirectory(prefix=f"{suite}-", dir=directory) as work, (directory / f"{suite}.log").open("w") as log:
        result = Path(work) / "rows.json"
        data = Path(work) / "data"
        data.mkdir()
        command = [sys.executable, "-m", "bench.child", suite, "quick" if quick else "full", str(data), str(result)]
        environment = os.environ | {
            "TMPDIR": work,  # Lightning writes there first; it must be the same disk
            "OMP_NUM_THREADS": str(threads),
            "OMP_WAIT_POLICY": "PASSIVE",  # a thread that spins at a barrier would take the core from a saver
        }
        try:
            subprocess.run(command, check=True, stdout=log, stderr=log, env=environment, timeout=DEADLINE_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(error, file=log)
            return None
        return [Row(**row) for row in json.loads(result.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    sys.exit(main())
