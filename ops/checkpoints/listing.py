"""`gpujob checkpoints list`: the checkpoints of a line as a table or JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ops.checkpoints.survey import Found, Survey
from ops.checkpoints.where import Place, Root
from ops.text import size_text

if TYPE_CHECKING:
    from ops.checkpoints.billing import Billed


@dataclass(frozen=True)
class Listing:
    place: Place
    survey: Survey
    billed: Billed | None
    """None: a directory, where nobody bills objects."""

    def as_json(self) -> str:
        survey = self.survey
        storage = {
            "objects": len(survey.entries),
            "bytes": survey.size_bytes,
            "unreferenced_bytes": survey.unreferenced_bytes,
        }
        rows = [_row(each) for each in survey.found]
        billed = vars(self.billed) if self.billed else None
        return json.dumps({"line": self.place.url, "checkpoints": rows, "storage": storage, "billed": billed}, indent=1)

    def show(self, console: Console) -> None:
        survey = self.survey
        table = Table()
        for column in ("step", "attempt", "when", "holds", "size", "shared", "state"):
            table.add_column(column, justify="right" if column in {"step", "size"} else "left", overflow="fold")
        for each in survey.found:
            table.add_row(*map(escape, _cells(each)))
        if survey.found:
            console.print(table)
        for each in survey.found:
            if each.reason:
                _say(console, f"{each.name} {each.state}: {each.reason}")
        count = len(survey.found)
        total = f"{size_text(survey.size_bytes)} in {len(survey.entries)} objects"
        _say(console, f"{self.place.url}: {count} checkpoint{'' if count == 1 else 's'}, {total}")
        if left := survey.unreferenced_bytes:
            _say(
                console,
                f"{size_text(left)} of it belong to no checkpoint: a save under way, or what a killed one left, which "
                "the worker removes after an hour",
            )
        if self.billed:
            _say(console, self.billed.sentence(survey.size_bytes))


def show_root(root: Root, console: Console) -> None:
    _say(console, f"{root.url} holds {len(root.lines)} checkpoint lines:")
    for name in root.lines:
        _say(console, f"  {name}")


def _say(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def root_as_json(root: Root) -> str:
    return json.dumps({"root": root.url, "lines": root.lines}, indent=1)


def _cells(each: Found) -> list[str]:
    head = each.head
    again = f" (try {each.name.save_try})" if each.name.save_try else ""
    when = head.created_at.replace("T", " ").replace("+00:00", "Z") if head else ""
    known = [when, holds(each), size_text(head.size_bytes), _shared(each)] if head else ["-"] * 4
    return [str(each.name.step), f"{each.name.attempt}{again}", *known, str(each.state)]


def holds(each: Found) -> str:
    """`session`, or `tree, 12 files`."""
    files = each.head.files if each.head else None
    return "session" if files is None else f"tree, {files} file{'' if files == 1 else 's'}"


def _shared(each: Found) -> str:
    return f"{each.shared} of {len(each.head.shards)}" if each.head and each.shared else "-"


def _row(each: Found) -> dict[str, Any]:
    head = each.head
    return {
        "name": str(each.name),
        "step": each.name.step,
        "attempt": str(each.name.attempt),
        "created_at": head.created_at if head else None,
        "size_bytes": head.size_bytes if head else None,
        "shards": len(head.shards) if head else None,
        "shared_shards": each.shared if head else None,
        "files": head.files if head else None,
        "state": each.state.name.lower(),
        "reason": each.reason or None,
    }
