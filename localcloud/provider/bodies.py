"""Between property values and the JSON of Google's REST APIs, in both directions."""

from __future__ import annotations

from typing import cast

from localcloud.provider.fields import Field, Kind
from localcloud.provider.values import Tree, Values, dig, is_blank, put


def body_of(fields: tuple[Field, ...], values: Values) -> Values:
    """The request body for these property values: blanks are left out unless the field says otherwise."""
    body: Values = {}
    for field in fields:
        value = values.get(field.name)
        if field.local or value is None:
            continue
        sent = _sent(field, value)
        if not is_blank(sent) or field.sent_when_blank:
            put(body, field.path, sent)
    return body


def _sent(field: Field, value: Tree) -> Tree:
    if field.kind is Kind.ONE:
        return body_of(field.fields, value)
    if field.kind is Kind.MANY:
        items = cast("list[Values]", value)
        if field.key_outside:
            return {item[field.key]: _without(body_of(field.fields, item), field.key) for item in items}
        if field.order:
            items = sorted(items, key=field.order)
        return [body_of(field.fields, item) for item in items]
    return str(value) if field.as_text else value


def values_of(fields: tuple[Field, ...], answer: Values) -> Values:
    """The property values that an API answer holds, for the properties that are modelled."""
    values: Values = {}
    for field in fields:
        value = None if field.local else dig(answer, field.path)
        if value is not None:
            values[field.name] = _received(field, value)
    return values


def _received(field: Field, value: Tree) -> Tree:
    if field.kind is Kind.ONE:
        return values_of(field.fields, value)
    if field.kind is Kind.MANY:
        if field.key_outside:
            rest = sorted(cast("dict[str, Values]", value).items())
            return [{**values_of(field.fields, item), field.key: key} for key, item in rest]
        return [values_of(field.fields, item) for item in cast("list[Values]", value)]
    return int(value) if field.kind is Kind.WHOLE else value


def with_choices(fields: tuple[Field, ...], values: Values, state: Values) -> Values:
    """Inputs plus what the API chose before where they leave it the choice: what Google's provider sends on update."""
    full = dict(values)
    for field in fields:
        seen = state.get(field.name)
        if seen is None:
            continue
        if field.name not in full:
            if field.computed:
                full[field.name] = seen
        elif field.kind is Kind.ONE:
            full[field.name] = with_choices(field.fields, full[field.name], seen)
        elif field.kind is Kind.MANY and not field.key:
            items, known = cast("list[Values]", full[field.name]), cast("list[Values]", seen)
            full[field.name] = [
                with_choices(field.fields, item, known[index]) if index < len(known) else item
                for index, item in enumerate(items)
            ]
    return full


def _without(values: Values, key: str) -> Values:
    return {name: value for name, value in values.items() if name != key}
