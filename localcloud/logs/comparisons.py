"""Comparisons of a log entry's field with a value, as Cloud Logging's filters mean them."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from localcloud.jsontypes import Json
from localcloud.resources import parse_timestamp

Predicate = Callable[[Json], bool]
SEVERITIES = {
    "DEFAULT": 0,
    "DEBUG": 100,
    "INFO": 200,
    "NOTICE": 300,
    "WARNING": 400,
    "ERROR": 500,
    "CRITICAL": 600,
    "ALERT": 700,
    "EMERGENCY": 800,
}


class FilterError(ValueError):
    """The filter is malformed, or uses something this implementation does not know; the message says which."""


def moment_of(text: str) -> datetime:
    """The time that a filter names.

    Raises:
        FilterError: it names none.
    """
    try:
        return parse_timestamp(text)
    except ValueError as error:
        raise FilterError(f"Unparseable filter: {text!r} is no RFC 3339 time.") from error


def _lookup(entry: Json, fields: list[str]) -> object:
    value: object = entry
    for field in fields:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, object]", value).get(field)
    return value


def _severity(text: str) -> int:
    name = text.upper()
    if name not in SEVERITIES:
        raise FilterError(f"Unparseable filter: {name!r} is no severity; they are {', '.join(SEVERITIES)}.")
    return SEVERITIES[name]


def exists(fields: list[str]) -> Predicate:
    """`field:*`."""
    return lambda entry: _lookup(entry, fields) is not None


def compare(fields: list[str], operator: str, wanted: str) -> Predicate:
    """One comparison of a field path with a value.

    Raises:
        FilterError: the value does not fit the field or the operator.
    """
    if fields == ["severity"] and operator != ":":
        rank = _severity(wanted)
        return lambda entry: _ordered(SEVERITIES.get(str(entry.get("severity")), 0), operator, rank)
    if fields in (["timestamp"], ["receiveTimestamp"]):
        moment = moment_of(wanted)
        return lambda entry: _ordered(parse_timestamp(str(entry[fields[0]])), operator, moment)
    if operator in {"=~", "!~"}:
        try:
            pattern = re.compile(wanted)
        except re.error as error:
            raise FilterError(f"Unparseable filter: {wanted!r} is no regular expression ({error}).") from error
        wanted_match = operator == "=~"
        return lambda entry: _found(pattern, _lookup(entry, fields)) is wanted_match
    return lambda entry: _compare_value(_lookup(entry, fields), operator, wanted)


def _found(pattern: re.Pattern[str], value: object) -> bool:
    return value is not None and pattern.search(str(value)) is not None


def _compare_value(value: object, operator: str, wanted: str) -> bool:
    if value is None:
        return operator == "!="
    if isinstance(value, list):
        return any(_compare_value(each, operator, wanted) for each in cast("list[object]", value))
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, (int, float)) and operator != ":":
        try:
            return _ordered(float(value), operator, float(wanted))
        except ValueError:
            return operator == "!="
    text, wanted = str(value).casefold(), wanted.casefold()
    return wanted in text if operator == ":" else _ordered(text, operator, wanted)


def _ordered(left: Any, operator: str, right: Any) -> bool:
    match operator:
        case "=" | ":":
            return bool(left == right)
        case "!=":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)
