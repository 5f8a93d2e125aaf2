"""The shape of Google's documents in memory: JSON objects whose fields depend on the resource."""

from collections.abc import Mapping
from typing import Any, cast

Json = dict[str, Any]


def obj(value: object) -> Json:
    """The value as a JSON object; an empty one for anything else (an absent field reads like an empty message)."""
    return cast("Json", value) if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """The value as a JSON array; an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def objects(value: object) -> list[Json]:
    """The JSON objects of an array."""
    return [obj(each) for each in items(value)]


def strings(value: object) -> dict[str, str]:
    """A JSON object of strings, such as labels."""
    return {str(key): str(each) for key, each in cast("Mapping[object, object]", obj(value)).items()}
