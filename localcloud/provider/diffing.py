"""`diff`: which inputs changed, at which paths, and whether the object can be updated or must be replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from localcloud.provider.fields import Field, Kind, alike
from localcloud.provider.values import UNKNOWN, Tree, Values, is_blank


class Change(Enum):
    ADD = "ADD"
    DELETE = "DELETE"
    UPDATE = "UPDATE"


@dataclass(frozen=True)
class Difference:
    path: str
    """In the engine's spelling: `template.template.containers[0].image`, `labels["a.b"]`."""
    change: Change
    replaces: bool

    @property
    def top(self) -> str:
        return re.split(r"[.\[]", self.path, maxsplit=1)[0]


def differences(fields: tuple[Field, ...], old: Values, new: Values, state: Values) -> list[Difference]:
    """Compare checked inputs with those of the last deployment.

    Args:
        state: the last outputs: what the API chose where the old inputs left it the choice.
    """
    return list(_objects(fields, old, new, state, "", replaces=False))


def _objects(
    fields: tuple[Field, ...], old: Values, new: Values, state: Values, prefix: str, *, replaces: bool
) -> Iterator[Difference]:
    for field in fields:
        yield from _field(
            field,
            old.get(field.name),
            new.get(field.name),
            state.get(field.name),
            f"{prefix}{field.name}",
            replaces=replaces or field.replaces,
        )


def _field(field: Field, old: Tree, new: Tree, state: Tree, path: str, *, replaces: bool) -> Iterator[Difference]:
    if new is None and field.computed:
        return  # the API's choice stays
    if new == UNKNOWN:
        yield Difference(path, Change.ADD if old is None else Change.UPDATE, replaces)
        return
    if old is None and field.computed and field.kind not in (Kind.ONE, Kind.MANY):
        old = state
    if field.answered and state is not None:
        old = state
    if field.kind is Kind.ONE:
        if (old is None) != (new is None) and not is_blank(old or new):
            yield Difference(path, Change.ADD if old is None else Change.DELETE, replaces)
        else:
            yield from _objects(field.fields, old or {}, new or {}, state or {}, f"{path}.", replaces=replaces)
    elif field.kind is Kind.MANY:
        yield from _lists(field, old or [], new or [], state or [], path, replaces=replaces)
    elif field.kind is Kind.MAP:
        yield from _maps(old or {}, new or {}, path, replaces=replaces)
    elif not alike(field, old, new):
        change = Change.ADD if old is None else Change.DELETE if new is None else Change.UPDATE
        yield Difference(path, change, replaces)


def _maps(old: Values, new: Values, path: str, *, replaces: bool) -> Iterator[Difference]:
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            change = Change.ADD if key not in old else Change.DELETE if key not in new else Change.UPDATE
            yield Difference(path + _step(key), change, replaces)


def _lists(
    field: Field, old: list[Tree], new: list[Tree], state: list[Tree], path: str, *, replaces: bool
) -> Iterator[Difference]:
    if UNKNOWN in new:
        yield Difference(path, Change.UPDATE, replaces)
        return
    before, after, known = (_keyed(field, items) for items in (old, new, state))
    for key, (index, item) in after.items():
        if key not in before:
            yield Difference(f"{path}[{index}]", Change.ADD, replaces)
            continue
        yield from _objects(
            field.fields, before[key][1], item, known.get(key, (0, {}))[1], f"{path}[{index}].", replaces=replaces
        )
    for key, (index, _) in before.items():
        if key not in after:
            yield Difference(f"{path}[{index}]", Change.DELETE, replaces)


def _keyed(field: Field, items: list[Tree]) -> dict[str, tuple[int, Values]]:
    """Items by what makes them the same item: their key, or their place where order counts."""
    return {str(item.get(field.key, index) if field.key else index): (index, item) for index, item in enumerate(items)}


def _step(key: str) -> str:
    return f".{key}" if re.fullmatch(r"[A-Za-z_]\w*", key) else f'["{key}"]'
