"""A training program that ends at its first step: `python -m bench.first_step MODE BYTES ROOT RESULT`.

MODE: fresh     no checkpoint on the line
      restart   a checkpoint of BYTES is there; signals, storage, torch, model, restore: as `python -m app` orders them
      alone     as restart, but the line is opened after torch and model: how long a restore takes that overlaps nothing
      torch     the peer: the same program with torch.load
      prepare   make what restart, alone and torch start from

The parent puts its monotonic clock into BENCH_STARTED; the result holds seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from bench import startable


def main() -> None:
    mode, size, root, result = sys.argv[1:]
    line, file = Path(root) / ("fresh" if mode == "fresh" else "line"), Path(root) / "torch"
    early = startable.open_line_early(line) if mode in ("fresh", "restart") else None
    began = time.perf_counter()
    from bench import states

    import_s = time.perf_counter() - began
    training = states.Training(int(size), stepped=mode == "prepare")
    if mode == "prepare":
        startable.prepare(line, training)
        from bench import peers

        peers.torch_save(training.state(), file)
        return
    began = time.perf_counter()
    if mode == "torch":
        import torch

        training.load(torch.load(file, weights_only=True))
    else:
        startable.enter(early or startable.open_line(line), training)
    enter_s = time.perf_counter() - began
    total_s = time.monotonic() - float(os.environ["BENCH_STARTED"])
    found = {"import_s": import_s, "enter_s": enter_s, "total_s": total_s}
    Path(result).write_text(json.dumps(found), encoding="ascii")
    os._exit(0)  # what follows the first step is not the question


if __name__ == "__main__":
    main()
