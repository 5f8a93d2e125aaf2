"""How a type's properties are declared: one `Field` each, with what the engine and the API need to know about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from localcloud.provider.values import Tree, Values, is_blank


class Kind(Enum):
    TEXT = "a string"
    FLAG = "a boolean"
    WHOLE = "a whole number"
    NUMBER = "a number"
    MAP = "a map of strings"
    TEXTS = "a list of strings"
    ONE = "an object"
    MANY = "a list of objects"


@dataclass(frozen=True)
class Field:
    """One input property. Names are those of the Google provider's Pulumi package, in camel case."""

    name: str
    kind: Kind
    api: str = ""
    """Dotted path in the REST body; empty means the same name."""
    required: bool = False
    default: Tree = None
    """Filled in by the plugin when the program gives none."""
    replaces: bool = False
    """The API cannot change it: another value means another object."""
    computed: bool = False
    """Where the program gives none the API chooses, and its choice is kept and is no drift."""
    answered: bool = False
    """Compared with what the API answered as well: it may accept another value than it then says it uses."""
    sent_when_blank: bool = False
    """Goes into the body although it is "", 0, false or empty."""
    local: bool = False
    """Steers this plugin only; the API never sees it."""
    owned_keys: bool = False
    """A map that others write to as well: only the program's own keys are compared."""
    as_text: bool = False
    """A 64-bit integer, which Google's JSON spells as a string."""
    choices: tuple[str, ...] = ()
    spelled: Callable[[Any], Tree] | None = None
    """Applied by `check`: the one spelling that the API answers with."""
    meaning: Callable[[Any], Tree] | None = None
    """Values with equal meaning are no change."""
    fields: tuple[Field, ...] = ()
    """Of an object, or of each object of a list."""
    key: str = ""
    """A list whose order means nothing: its objects are told apart by this property."""
    key_outside: bool = False
    """In the body the list is a map from `key` to the rest."""
    order: Callable[[Values], str] | None = None
    """Sort key of a list in the body, where the order that Google's provider sends is known."""

    @property
    def path(self) -> str:
        return self.api or self.name


def text(name: str, **more: Any) -> Field:
    return Field(name, Kind.TEXT, **more)


def flag(name: str, **more: Any) -> Field:
    return Field(name, Kind.FLAG, **more)


def whole(name: str, **more: Any) -> Field:
    return Field(name, Kind.WHOLE, **more)


def number(name: str, **more: Any) -> Field:
    return Field(name, Kind.NUMBER, **more)


def string_map(name: str, **more: Any) -> Field:
    return Field(name, Kind.MAP, **more)


def texts(name: str, **more: Any) -> Field:
    return Field(name, Kind.TEXTS, **more)


def one(name: str, *fields: Field, **more: Any) -> Field:
    return Field(name, Kind.ONE, fields=fields, **more)


def many(name: str, *fields: Field, **more: Any) -> Field:
    return Field(name, Kind.MANY, fields=fields, **more)


def alike(field: Field, left: Tree, right: Tree) -> bool:
    """Whether two values of a leaf mean the same; blanks are equal to nothing at all."""
    if is_blank(left) and is_blank(right):
        return True
    if field.meaning and left is not None and right is not None:
        return field.meaning(left) == field.meaning(right)
    return bool(left == right)
