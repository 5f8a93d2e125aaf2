"""The package schema that the engine may ask for: the types and their properties, from the same declarations."""

from __future__ import annotations

import json

from localcloud.provider.fields import Field, Kind
from localcloud.provider.products import TYPES
from localcloud.provider.settings import KNOWN
from localcloud.provider.values import Values

_ANY = {"$ref": "pulumi.json#/Any"}
_SHAPES: dict[Kind, Values] = {
    Kind.TEXT: {"type": "string"},
    Kind.FLAG: {"type": "boolean"},
    Kind.WHOLE: {"type": "integer"},
    Kind.NUMBER: {"type": "number"},
    Kind.MAP: {"type": "object", "additionalProperties": {"type": "string"}},
    Kind.TEXTS: {"type": "array", "items": {"type": "string"}},
    Kind.ONE: _ANY,
    Kind.MANY: {"type": "array", "items": _ANY},
}


def schema(version: str) -> str:
    """JSON text in Pulumi's package schema format."""
    resources = {
        token: {
            "inputProperties": _properties(kind.inputs),
            "requiredInputs": [field.name for field in kind.inputs if field.required and field.name != kind.autonamed],
            "properties": {**_properties(kind.inputs), **dict.fromkeys(kind.outputs, _ANY)},
        }
        for token, kind in TYPES.items()
    }
    variables = {key: {"type": "string"} for key in KNOWN}
    return json.dumps(
        {
            "name": "gcp",
            "version": version,
            "config": {"variables": variables},
            "provider": {"inputProperties": variables},
            "resources": resources,
        }
    )


def _properties(fields: tuple[Field, ...]) -> Values:
    return {field.name: _SHAPES[field.kind] for field in fields}
