"""`check`: are the program's inputs such as the API takes them, and what is filled in for those it left out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from localcloud.provider.fields import Field, Kind
from localcloud.provider.values import UNKNOWN, Tree, Values


@dataclass(frozen=True)
class Failure:
    path: str
    reason: str


def check(fields: tuple[Field, ...], given: Values, where: str, prefix: str = "") -> tuple[Values, list[Failure]]:
    """Checked inputs with defaults, and every reason against them.

    Args:
        where: what the properties belong to, for the messages.
        prefix: property path of the object that holds them, empty at the top.
    """
    checked: Values = {}
    failures: list[Failure] = []
    known = {field.name: field for field in fields}
    for name, value in given.items():
        path = f"{prefix}{name}"
        if name not in known:
            failures.append(Failure(path, _unknown(name, known, where)))
        elif value is not None:
            checked[name], found = _checked(known[name], value, path, where)
            failures += found
    for field in fields:
        if field.name in checked:
            continue
        if field.default is not None:
            checked[field.name] = field.default
        elif field.required:
            failures.append(Failure(f"{prefix}{field.name}", f"is required by {where} and missing"))
    return checked, failures


def _unknown(name: str, known: Iterable[str], where: str) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f" Did you mean `{close[0]}`?" if close else ""
    return (
        f"`{name}` of {where} is not a property this plugin can make, and it will not leave it out silently.{hint} "
        f"It knows: {', '.join(sorted(known))}."
    )


def _checked(field: Field, value: Tree, path: str, where: str) -> tuple[Tree, list[Failure]]:
    if value == UNKNOWN:
        return value, []
    if not _fits(field.kind, value):
        return value, [Failure(path, f"must be {field.kind.value}, not {_named(value)}")]
    if field.kind is Kind.ONE:
        return check(field.fields, cast("Values", value), where, f"{path}.")
    if field.kind is Kind.MANY:
        return _checked_list(field, cast("list[Tree]", value), path, where)
    if field.choices and value not in field.choices:
        return value, [Failure(path, f"must be one of {', '.join(field.choices)}, not {value!r}")]
    return (field.spelled(value) if field.spelled else value), []


def _checked_list(field: Field, items: list[Tree], path: str, where: str) -> tuple[Tree, list[Failure]]:
    checked: list[Tree] = []
    failures: list[Failure] = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        values, found = _checked_item(field, item, f"{path}[{index}]", where)
        checked.append(values)
        failures += found
        if field.key and isinstance(values, dict):
            key = str(cast("Values", values).get(field.key))
            if key in seen and key != UNKNOWN:
                failures.append(Failure(f"{path}[{index}].{field.key}", f"{key!r} is given twice"))
            seen.add(key)
    return checked, failures


def _checked_item(field: Field, item: Tree, path: str, where: str) -> tuple[Tree, list[Failure]]:
    return (item, []) if item == UNKNOWN else check(field.fields, item, where, f"{path}.")


def _fits(kind: Kind, value: Tree) -> bool:
    if kind is Kind.WHOLE:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is Kind.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is Kind.MAP:
        return isinstance(value, dict) and all(isinstance(item, str) for item in cast("Values", value).values())
    if kind is Kind.TEXTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Tree]", value))
    if kind is Kind.MANY:
        return isinstance(value, list) and all(
            isinstance(item, dict) or item == UNKNOWN for item in cast("list[Tree]", value)
        )
    return isinstance(value, {Kind.TEXT: str, Kind.FLAG: bool, Kind.ONE: dict}[kind])


def _named(value: Tree) -> str:
    kinds = {
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a fraction",
        list: "a list",
        dict: "an object",
    }
    return f"{kinds.get(type(value), type(value).__name__)} ({str(value)[:60]!r})"
