"""`gpujob checkpoints`: what can be typed, and nothing else."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.errors import MisconfiguredError
from ops.reporting import reported, say

if TYPE_CHECKING:
    from ops.checkpoints.survey import Found
    from ops.checkpoints.where import Place

app = typer.Typer(
    no_args_is_help=True,
    help="Look at checkpoint lines; verify, export, fork and prune what is on them.",
)

Line = Annotated[
    str | None,
    typer.Argument(
        metavar="[LINE]",
        help="A line's directory or gs:// URL; with --stack the name of one of its lines. Default: the stack's.",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Argument(metavar="[CHECKPOINT]", help="Its name, the beginning of it, or its step. Default: the newest."),
]
Stack = Annotated[
    str | None,
    typer.Option(
        "--stack", "-s", metavar="NAME", help="Pulumi stack. Default: $GPUJOB_STACK, else the selected stack."
    ),
]


@app.command("list")
def list_(
    line: Line = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Read the content of each, too.")] = False,
    stack: Stack = None,
) -> None:
    """Show the checkpoints of a line, newest first; of a folder of several lines, their names."""
    with reported():
        from dataclasses import replace

        from rich.console import Console

        from ops.checkpoints.billing import billed
        from ops.checkpoints.listing import Listing, root_as_json, show_root
        from ops.checkpoints.survey import looked_at, survey
        from ops.checkpoints.trouble import telling
        from ops.checkpoints.verifying import progress
        from ops.checkpoints.where import CLOUD, Root, find

        console = Console()
        # Piped output is for grep: rows must not be folded at 80 columns.
        console = console if console.is_terminal else Console(width=200)
        found = find(line, stack)
        if isinstance(found, Root):
            typer.echo(root_as_json(found)) if as_json else show_root(found, console)
            return
        with telling(found.url):
            seen = survey(found.store)
            if verify:
                with progress(sum(each.head.size_bytes for each in seen.found if each.head)) as read:
                    seen = replace(seen, found=tuple(looked_at(found.store, each, read) for each in seen.found))
        listing = Listing(found, seen, billed(found.url) if found.url.startswith(CLOUD) else None)
        typer.echo(listing.as_json()) if as_json else listing.show(console)


@app.command()
def verify(
    line: Line = None,
    checkpoint: Annotated[
        str | None,
        typer.Argument(metavar="[CHECKPOINT]", help="Its name, the beginning of it, or its step. Default: all."),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Record what is damaged in quarantine, so that the job passes over it.")
    ] = False,
    stack: Stack = None,
) -> None:
    """Read the content of all checkpoints of a line, or of one; exit 1 when one is damaged. Changes nothing."""
    with _on_one(line, stack) as place:
        from ops.checkpoints.verifying import verify_line

        verify_line(place, checkpoint, typer.echo, record=record)


@app.command()
def export(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The safetensors file to write.")],
    line: Line = None,
    checkpoint: Checkpoint = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Which model, where the session has several.")
    ] = None,
    stack: Stack = None,
) -> None:
    """Write a model's weights as one safetensors file that `safetensors.torch.load_file` opens."""
    with _on_one(line, stack) as place:
        from ops.checkpoints.exporting import export as export_to

        export_to(place, _chosen(place, checkpoint), model, out, say)


@app.command()
def fork(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[LINE] [CHECKPOINT] DESTINATION",
            help="DESTINATION: a directory or gs:// URL that is not there yet, or empty. Default of CHECKPOINT: the "
            "newest. With --stack LINE may be left out.",
        ),
    ],
    stack: Stack = None,
) -> None:
    """Begin a new line with a verified copy of a checkpoint."""
    with reported():
        *source, destination = arguments
        if len(source) > 2 or (not source and stack is None):
            raise MisconfiguredError("Give LINE, perhaps CHECKPOINT, and DESTINATION. Nothing was changed.")
    line, checkpoint = [*source, None, None][:2]
    with _on_one(line, stack) as place:
        from ops.checkpoints.forking import fork as fork_to

        fork_to(place, _chosen(place, checkpoint), destination, say)


@app.command()
def prune(
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", help="So many of the newest that verify stay (2 or more).")
    ],
    line: Line = None,
    keep_every: Annotated[
        int | None, typer.Option("--keep-every", metavar="K", help="Those of every K-th step stay as well.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    stack: Stack = None,
) -> None:
    """Delete older checkpoints; never one of the last two that verify, and not while an attempt seems active."""
    with _on_one(line, stack) as place:
        from ops.checkpoints.pruning import now
        from ops.checkpoints.pruning import prune as prune_line

        prune_line(place, keep, keep_every, typer.echo, dry_run=dry_run, now_s=now())


@contextmanager
def _on_one(line: str | None, stack: str | None) -> Generator["Place"]:
    """The line that is meant. What storage and engine raise within ends the command as any error of it does."""
    with reported():
        from ops.checkpoints.trouble import telling
        from ops.checkpoints.where import one_line

        place = one_line(line, stack)
        with telling(place.url):
            yield place


def _chosen(place: "Place", checkpoint: str | None) -> "Found":
    from ops.checkpoints.survey import choose, newest, survey

    found = survey(place.store).found
    return choose(found, checkpoint, place.url) if checkpoint else newest(found, place.url)
