"""Writes the tables of docs/policies.md from the rules: `python -m policies.reference`. A test holds them together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from .rules import RULES
from .rules.rule import Rule

PAGE = Path(__file__).resolve().parents[1] / "docs" / "policies.md"


def written(page: str) -> str:
    """The page with every table between its marks replaced by the one that the rules give."""
    for name, table in _TABLES.items():
        body = "\n".join(table())
        block = f"<!-- table: {name} -->\n{body}\n<!-- end -->"
        page, found = re.subn(
            rf"<!-- table: {name} -->.*?<!-- end -->", block.replace("\\", r"\\"), page, flags=re.DOTALL
        )
        if not found:
            raise ValueError(f"docs/policies.md has no mark `<!-- table: {name} -->`; put it where the table belongs")
    return page


def _demands() -> Iterator[str]:
    yield "| policy | severity | demands | covers |"
    yield "|---|---|---|---|"
    for rule in RULES:
        level = "" if rule.level.value == "mandatory" else f" ({rule.level.value})"
        covers = ", ".join(rule.covers) or "-"
        yield f"| `{rule.name}` | {rule.severity.value}{level} | {rule.description} | {covers} |"


def _remediations() -> Iterator[str]:
    yield "| policy | looks at | what to do |"
    yield "|---|---|---|"
    for rule in RULES:
        yield f"| `{rule.name}` | {', '.join(_looks_at(rule))} | {rule.remediation} |"


def _options() -> Iterator[str]:
    yield "| policy | option | default | meaning |"
    yield "|---|---|---|---|"
    for rule in RULES:
        for option in rule.options:
            yield f"| `{rule.name}` | `{option.name}` | `{json.dumps(option.default)}` | {option.description} |"


_TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "demands": _demands,
    "remediations": _remediations,
    "options": _options,
}


def _looks_at(rule: Rule) -> Iterator[str]:
    """gcp:storage/bucket:Bucket -> `storage.Bucket`"""
    if "IAM|Iam" in rule.types:
        yield "every IAM grant"
    for module, name in re.findall(r"gcp:([a-z0-9]+)/[a-zA-Z]+:([a-zA-Z]+)", rule.types):
        yield f"`{module}.{name}`"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
