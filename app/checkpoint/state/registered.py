"""Classes of a program's own that a checkpoint may hold: each said so, under a name that stays.

    @codec.register("schedule")
    @dataclass
    class Schedule: ...

    codec.register("int4", Int4Tensor)

Enums come back by their member's name (flags by their number), dataclasses and named tuples field by field without
running `__init__`, tensor subclasses through `__tensor_flatten__` and `__tensor_unflatten__`. Nothing else of a class
is stored, so moving or renaming it changes nothing, and loading a checkpoint never imports what it names.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from app.contract import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")


class NotRegistered(Refusal):
    """The checkpoint holds a value of a class that this program did not register."""


class ClassChanged(Refusal):
    """The class registered under a name cannot hold what was saved of it."""


class Changed(Exception):  # noqa: N818
    """An instance holds more than its fields, which would be lost."""


_BY_NAME: dict[str, type[Any]] = {}
_BY_CLASS: dict[type[Any], tuple[str, str]] = {}
"""Class -> its mark in the tree and its name."""


@overload
def register(name: str) -> Callable[[type[T]], type[T]]: ...
@overload
def register(name: str, cls: type[T]) -> type[T]: ...
def register(name: str, cls: type[Any] | None = None) -> Any:
    """Let checkpoints hold instances of exactly this class; a decorator when only `name` is given.

    Raises ValueError for a name that another class has, TypeError for a class of no such kind.
    """
    if cls is None:

        def decorator(decorated: type[T]) -> type[T]:
            return register(name, decorated)

        return decorator
    mark = _mark_of(cls)
    if (taken := _BY_NAME.get(name)) not in (None, cls):
        raise ValueError(f"{name!r} is registered for {_told(taken)} already; register {_told(cls)} by another name")
    if _BY_CLASS.get(cls, (mark, name)) != (mark, name):
        raise ValueError(f"{_told(cls)} is registered as {_BY_CLASS[cls][1]!r} already, and has one name only")
    _BY_NAME[name] = cls
    _BY_CLASS[cls] = mark, name
    return cls


def mark_and_name(cls: type[Any]) -> tuple[str, str] | None:
    """`("$record", "schedule")`; None for a class that is not registered."""
    return _BY_CLASS.get(cls)


def fields_of(value: Any) -> dict[str, Any]:
    """What a registered dataclass or named tuple holds. Raises Changed."""
    named = isinstance(value, tuple)
    names: list[str] = list(cast("Any", value)._fields) if named else [each.name for each in dataclasses.fields(value)]
    if more := set(getattr(value, "__dict__", ())) - set(names):
        raise Changed(f"has attributes that are no fields: {', '.join(sorted(more))}. They would be lost")
    if absent := [name for name in names if not hasattr(value, name)]:
        raise Changed(f"has no {', '.join(absent)}")
    return dict(zip(names, value, strict=True)) if named else {name: getattr(value, name) for name in names}


def record(name: str, saved: Mapping[str, Any]) -> Any:
    """The dataclass or named tuple again; a field that is new since then gets its default. Raises Refusal."""
    cls = _class_of(name, "$record")
    fields, defaults = _expected(cls)
    if unknown := [field for field in saved if field not in fields]:
        raise ClassChanged(_changed(name, cls, f"has no field {', '.join(unknown)}"))
    missing = [field for field in fields if field not in saved]
    if without := [field for field in missing if field not in defaults]:
        raise ClassChanged(_changed(name, cls, f"has a new field {', '.join(without)} without a default"))
    values = {field: saved[field] if field in saved else defaults[field]() for field in fields}
    if issubclass(cls, tuple):
        return tuple.__new__(cls, values.values())
    made = object.__new__(cls)
    for field, value in values.items():
        object.__setattr__(made, field, value)  # frozen ones too
    return made


def member(name: str, stored: str | int) -> Any:
    """The enum's member again. Raises Refusal."""
    cls = _class_of(name, "$enum")
    try:
        return cls(stored) if issubclass(cls, enum.Flag) else cast("Any", cls)[stored]
    except (KeyError, ValueError, TypeError):
        raise ClassChanged(_changed(name, cls, f"has no member {stored!r}")) from None


def stored_member(value: enum.Enum) -> str | int:
    return value.value if isinstance(value, enum.Flag) else value.name


def subclass(name: str, inner: Mapping[str, Any], context: Any, size: Sequence[int], stride: Sequence[int]) -> Any:
    """The tensor again, from its inner tensors. Raises Refusal."""
    cls = _class_of(name, "$subclass")
    try:
        return cls.__tensor_unflatten__(dict(inner), context, _size(size), tuple(stride))
    except Exception as error:  # whatever code of another version of the class thinks of it
        raise ClassChanged(_changed(name, cls, f"cannot be put together again: {error!r}")) from error


def _size(size: Sequence[int]) -> Any:
    import torch

    return torch.Size(size)


def _mark_of(cls: type[Any]) -> str:
    if issubclass(cls, enum.Enum):
        return "$enum"
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return "$record"
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(cls, torch.Tensor) and hasattr(cls, "__tensor_flatten__"):
        return "$subclass"
    if dataclasses.is_dataclass(cls) and not issubclass(cls, (dict, list, tuple, str, bytes, int, float)):
        return "$record"
    raise TypeError(
        f"{_told(cls)} cannot be registered: only enums, dataclasses, named tuples, and tensor subclasses with "
        "__tensor_flatten__ can. Give the object's state_dict() to the session instead"
    )


def _class_of(name: str, mark: str) -> type[Any]:
    cls = _BY_NAME.get(name)
    if cls is None:
        known = ", ".join(sorted(_BY_NAME)) or "none"
        raise NotRegistered(
            f'The checkpoint holds a value of a class registered as "{name}", and this program registered {known}. '
            f'Call app.checkpoint.codec.register("{name}", THE_CLASS) before the session begins. Nothing was changed.'
        )
    if _BY_CLASS[cls][0] != mark:
        raise ClassChanged(_changed(name, cls, "is of another kind now"))
    return cls


def _expected(cls: type[Any]) -> tuple[list[str], dict[str, Callable[[], Any]]]:
    """Field names in order, and how to make the default of those that have one."""
    if issubclass(cls, tuple):
        given: dict[str, Any] = cast("Any", cls)._field_defaults
        return list(cast("Any", cls)._fields), {name: lambda value=value: value for name, value in given.items()}
    defaults = dict[str, "Callable[[], Any]"]()
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = lambda value=field.default: value
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory
    return [field.name for field in dataclasses.fields(cls)], defaults


def _changed(name: str, cls: type[Any], what: str) -> str:
    return (
        f'The checkpoint holds a "{name}" that does not fit {_told(cls)}, which {what}. Run the version of the program '
        "that wrote it, or register a class that fits under this name. Nothing was changed."
    )


def _told(cls: type[Any] | None) -> str:
    return f"{cls.__module__}.{cls.__qualname__}" if cls else "nothing"
