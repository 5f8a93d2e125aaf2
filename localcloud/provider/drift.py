"""`read`: the API's answer turned back into inputs, so that the next preview shows what somebody else changed."""

from __future__ import annotations

from typing import cast

from localcloud.provider.fields import Field, Kind, alike
from localcloud.provider.values import Tree, Values, is_blank


def inputs_seen(fields: tuple[Field, ...], old: Values, seen: Values) -> Values:
    """The inputs that would make the object as it now is.

    What the program wrote keeps its spelling where it still means the same. What it left to the API is no input;
    what it left out and the API now has anyway is one, and the next preview will want to remove it.
    """
    inputs: Values = {}
    for field in fields:
        value = _seen(field, old.get(field.name), seen.get(field.name))
        if value is not None:
            inputs[field.name] = value
    return inputs


def inputs_imported(fields: tuple[Field, ...], seen: Values) -> Values:
    """Every input that the object shows, for an object that no program has described yet."""
    inputs: Values = {}
    for field in fields:
        value = seen.get(field.name)
        if value is None or (is_blank(value) and field.default is None):
            continue
        if field.kind is Kind.ONE:
            value = inputs_imported(field.fields, value)
        elif field.kind is Kind.MANY:
            value = [inputs_imported(field.fields, item) for item in cast("list[Values]", value)]
        inputs[field.name] = value
    return inputs


def _seen(field: Field, old: Tree, seen: Tree) -> Tree:
    if field.local or (old is None and field.computed):
        return old
    if field.kind is Kind.ONE:
        return _object(field, old, seen)
    if field.kind is Kind.MANY:
        return _list(field, old, seen)
    if field.owned_keys:
        return _owned(old, seen)
    return old if alike(field, old, seen) else _leaf(field, seen)


def _leaf(field: Field, seen: Tree) -> Tree:
    if seen is None and field.default is not None:
        return {Kind.FLAG: False, Kind.WHOLE: 0, Kind.NUMBER: 0, Kind.TEXT: ""}.get(field.kind)
    return seen


def _object(field: Field, old: Values | None, seen: Values | None) -> Values | None:
    if seen is None:
        # A block of blanks is often answered by no block at all.
        return old if old is not None and _all_blank(old) else None
    inputs = inputs_seen(field.fields, old or {}, seen)
    return inputs if old is not None or not _all_blank(inputs) else None


def _all_blank(value: Tree) -> bool:
    if isinstance(value, dict):
        return all(_all_blank(item) for item in cast("Values", value).values())
    return is_blank(value)


def _list(field: Field, old: list[Values] | None, seen: list[Values] | None) -> list[Values] | None:
    if not seen:
        return old if not old else []
    written = old or []
    if not field.key:
        return [
            inputs_seen(field.fields, written[index] if index < len(written) else {}, item)
            for index, item in enumerate(seen)
        ]
    there = {item.get(field.key): item for item in seen}
    names = [item.get(field.key) for item in written]
    kept = [inputs_seen(field.fields, item, there[item.get(field.key)]) for item in written if item[field.key] in there]
    return kept + [inputs_seen(field.fields, {}, item) for name, item in there.items() if name not in names]


def _owned(old: Values | None, seen: Values | None) -> Values | None:
    if old is None:
        return None
    return {key: (seen or {})[key] for key in old if key in (seen or {})}
