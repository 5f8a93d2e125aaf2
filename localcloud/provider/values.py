"""Property values between protobuf and Python: plain JSON trees in which one known string means "not known yet"."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from google.protobuf import struct_pb2

from localcloud.provider.errors import Refused

Tree: TypeAlias = Any
"""str, int, float, bool, list or dict of these; absent instead of null."""
Values: TypeAlias = dict[str, Tree]

# Sentinels of the engine's wire format (pulumi sdk/go/common/resource/plugin/rpc.go).
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - the wire format's mark, not a secret
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"


def from_struct(struct: struct_pb2.Struct) -> Values:
    """A message's fields as Python values; secrets are unwrapped (the engine keeps track of what is secret)."""
    return {key: _value(value) for key, value in struct.fields.items() if value.WhichOneof("kind") != "null_value"}


def to_struct(values: Values) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update({key: value for key, value in values.items() if value is not None})
    return struct


def _value(value: struct_pb2.Value) -> Tree:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "list_value":
        return [_value(item) for item in value.list_value.values]
    if kind != "struct_value":
        return None if kind in (None, "null_value") else getattr(value, kind)
    fields = value.struct_value.fields
    if _SIGNATURE not in fields:
        return from_struct(value.struct_value)
    mark = fields[_SIGNATURE].string_value
    if mark not in (_SECRET, _OUTPUT):
        raise Refused("an asset or a reference to a resource was given where a plain value is expected")
    return _value(fields["value"]) if "value" in fields else UNKNOWN


def is_blank(value: Tree) -> bool:
    """Whether Google's APIs treat the value as if it had not been given."""
    return value is None or value in ("", False, 0) or value in ([], {})


def has_unknown(value: Tree) -> bool:
    if isinstance(value, dict):
        return any(has_unknown(item) for item in cast("Values", value).values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in cast("list[Tree]", value))
    return value == UNKNOWN


def dig(tree: Tree, path: str) -> Tree:
    """The value at a dotted path, None where there is none."""
    for part in path.split("."):
        if not isinstance(tree, dict):
            return None
        tree = cast("Values", tree).get(part)
    return tree


def put(tree: Values, path: str, value: Tree) -> None:
    """Set the value at a dotted path, making the objects on the way."""
    *parents, last = path.split(".")
    for part in parents:
        tree = tree.setdefault(part, {})
    tree[last] = value


def last_part(name: str) -> str:
    """The short name of an object that is given by its short or its full name."""
    return name.rsplit("/", 1)[-1]
