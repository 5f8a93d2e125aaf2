"""The default workload: a small GPT trained on real text, byte by byte.

On a laptop, in seconds: CHECKPOINT_DIR=$(mktemp -d) python -m app language_model --size tiny --steps 60
"""

from __future__ import annotations

import math
import os
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app import logs, session
from app.workloads import positive, rate

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from app.startup import Start
    from app.workloads import Flags

STEPS = 200
SAVE_EVERY = None
STEP_DELAY_S = 0.0
PROMPT = b"def "


@dataclass(frozen=True)
class Size:
    """How big a model and batch; `text_bytes` is how much of the corpus is read."""

    layers: int
    heads: int
    width: int
    context: int
    batch: int
    learning_rate: float
    text_bytes: int


SIZES = {
    "tiny": Size(layers=2, heads=2, width=64, context=64, batch=8, learning_rate=3e-3, text_bytes=2**20),
    "small": Size(layers=4, heads=4, width=256, context=256, batch=16, learning_rate=1e-3, text_bytes=2**23),
    "medium": Size(layers=12, heads=12, width=768, context=512, batch=16, learning_rate=6e-4, text_bytes=2**26),
    "l4": Size(layers=24, heads=16, width=1024, context=1024, batch=16, learning_rate=3e-4, text_bytes=2**28),
}
"""From seconds on a laptop to what fills an L4's 24 GB (302 million parameters; sized by arithmetic, not measured)."""


def add_flags(parser: ArgumentParser) -> None:
    parser.add_argument("--size", choices=tuple(SIZES), default="tiny")
    parser.add_argument(
        "--data", help="a folder or gs:// prefix of text (default: the source of Python's standard library)"
    )
    parser.add_argument("--batch-size", type=positive, help="sequences a step (default: by size)")
    parser.add_argument("--learning-rate", type=rate, help="peak of the schedule (default: by size)")


def identity(flags: Flags) -> dict[str, Any]:
    """What a checkpoint belongs to, known before anything is loaded; the text is told by where it comes from."""
    return {
        "workload": "language_model",
        "size": flags.own.size,
        "data": flags.own.data,
        "seed": flags.seed,
        "batch_size": flags.own.batch_size or SIZES[flags.own.size].batch,
        "learning_rate": flags.own.learning_rate or SIZES[flags.own.size].learning_rate,
    }


def run(flags: Flags, start: Start) -> None:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic cuBLAS, before CUDA starts
    import torch

    from app.workloads.language_model import text
    from app.workloads.language_model.gpt import GPT, Shape

    torch.manual_seed(flags.seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size, known = SIZES[flags.own.size], identity(flags)
    corpus = text.load(flags.own.data, size.text_bytes)
    index, count = start.task.index, start.task.count
    batches = text.Windows(corpus, context=size.context, batch=known["batch_size"], seed=flags.seed * count + index)
    model = GPT(Shape(size.layers, size.heads, size.width, size.context, text.VOCABULARY)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=known["learning_rate"], betas=(0.9, 0.95), weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, _warm_up_and_cosine(flags.steps))
    precision = torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()
    parameters = sum(p.numel() for p in model.parameters())
    logs.info(f"{parameters / 1e6:.1f} million parameters on {device}, text of {corpus.numel() / 1e6:.1f} MB.")

    with session(
        model=model,
        optimizer=optimizer,
        scheduler=scheduler,
        data=batches,
        total_steps=flags.steps,
        every_steps=flags.save_every,
        log_every=flags.log_every,
        identity={**known, "text": text.fingerprint(corpus)},
        keep=flags.keep,
        fork=flags.fork,
        start=start,
    ) as run:
        for _ in run.steps():
            inputs, targets = next(batches)
            with precision:
                loss = model.loss(inputs.to(device), targets.to(device))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            run.log(loss=loss, tokens=inputs.numel())
            if flags.step_delay_s:
                time.sleep(flags.step_delay_s)
    written = model.sample(PROMPT, 200, seed=flags.seed).decode(errors="replace")
    logs.info(f"A sample of what it learned:\n{written}")


def _warm_up_and_cosine(steps: int) -> Any:
    """Factor of the peak learning rate: linear over the first 5 % of the steps, then half a cosine down to a tenth."""
    warm_up = max(1, steps // 20)

    def factor(step: int) -> float:
        if step < warm_up:
            return (step + 1) / warm_up
        progress = min(1.0, (step - warm_up) / max(1, steps - warm_up))
        return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))

    return factor
