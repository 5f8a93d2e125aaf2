"""`gpujob checkpoints verify`: reads the content of a line's checkpoints, and says which are damaged."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from ops.checkpoints.survey import Found, State, choose, looked_at, survey
from ops.checkpoints.where import Place
from ops.errors import MissingError, NotSucceededError
from ops.text import size_text

FOUND_BY = "gpujob checkpoints verify"


def verify_line(place: Place, typed: str | None, tell: Callable[[str], None], *, record: bool) -> None:
    """Tells a line a checkpoint. Raises NotSucceededError when one is damaged, and what storage raises."""
    found = survey(place.store).found
    chosen = [choose(found, typed, place.url)] if typed else list(found)
    if not chosen:
        raise MissingError(f"{place.url} has no checkpoint to verify. Nothing was changed.")
    looked = list[Found]()
    with progress(sum(each.head.size_bytes for each in chosen if each.head)) as seen:
        for each in chosen:
            began = time.monotonic()
            looked.append(looked_at(place.store, each, seen))
            tell(_sentence(looked[-1], time.monotonic() - began))
    if all(each.state is State.PRUNED for each in looked):
        raise MissingError(
            f"What was to be verified on {place.url} was pruned meanwhile. Nothing was changed. A job is at work: "
            "verify again."
        )
    bad = [each for each in looked if each.state is State.DAMAGED]
    if record:
        for each in bad:
            _record(place, each)
    if bad:
        after = (
            "Each is recorded in quarantine now, so the job passes over it; nothing was moved."
            if record
            else "Nothing was changed. The job finds this out by itself and uses the one before; with --record it is "
            "told now."
        )
        names = ", ".join(str(each.name) for each in bad)
        raise NotSucceededError(f"{len(bad)} of {len(looked)} checkpoints damaged: {names}. {after}")


@contextmanager
def progress(total_bytes: int) -> Generator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal."""
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("reading", total=total_bytes)
        yield lambda count: bar.advance(task, count)


def _sentence(each: Found, seconds: float) -> str:
    if each.state is State.VERIFIED and each.head:
        count = len(each.head.shards)
        objects = f"{count} shard{'' if count == 1 else 's'}"
        return f"{each.name}  verified: {size_text(each.head.size_bytes)} in {objects}, {seconds:.1f} s"
    return f"{each.name}  {each.state}: {each.reason}"


def _record(place: Place, each: Found) -> None:
    from app.checkpoint import quarantine

    quarantine.record(place.store, each.name, each.reason, FOUND_BY)
