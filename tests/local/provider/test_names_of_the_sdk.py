"""Every name in the plugin's tables is one of the Google provider's Pulumi package."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from localcloud.provider.fields import Field, Kind
from localcloud.provider.products import TYPES
from localcloud.provider.settings import KNOWN


@cache
def class_of(token: str) -> tuple[Any, type]:
    """Module and resource class of gcp:module/thing:Class."""
    module = importlib.import_module(f"pulumi_gcp.{token.split(':')[1].split('/', maxsplit=1)[0]}")
    return module, getattr(module, token.rsplit(":", 1)[-1])


def properties(cls: type) -> dict[str, str]:
    """Property name -> its annotation as text."""
    found = {name: value for name, value in vars(cls).items() if isinstance(value, property)}
    return {
        getattr(value.fget, "_pulumi_name", name): str(value.fget.__annotations__["return"])  # type: ignore[union-attr]
        for name, value in found.items()
    }


def unknown(module: Any, cls: type, fields: tuple[Field, ...], where: str) -> list[str]:
    """Paths of fields that the SDK's class, or a class nested in it, does not have, or has as another kind."""
    known = properties(cls)
    wrong: list[str] = []
    for field in fields:
        path = f"{where}.{field.name}"
        if field.name not in known:
            wrong.append(path)
            continue
        annotation = known[field.name]
        nested = re.search(r"ForwardRef\('(\w+Args)'\)", annotation)
        if (nested is not None) != (field.kind in (Kind.ONE, Kind.MANY)):
            wrong.append(f"{path} is {annotation}")
        elif nested:
            wrong += unknown(module, getattr(module, nested[1]), field.fields, path)
        elif not _same_kind(field.kind, annotation):
            wrong.append(f"{path} is {annotation}")
    return wrong


def _same_kind(kind: Kind, annotation: str) -> bool:
    listed, mapped = "Sequence" in annotation, "Mapping" in annotation
    plain = {Kind.TEXT: "str", Kind.FLAG: "bool", Kind.WHOLE: "int", Kind.NUMBER: "float"}
    if kind in plain:
        return not listed and not mapped and re.search(rf"\b{plain[kind]}\b", annotation) is not None
    return listed if kind is Kind.TEXTS else mapped


@pytest.mark.parametrize("token", TYPES)
def test_inputs_are_arguments_of_the_sdk_class(token: str) -> None:
    module, cls = class_of(token)
    arguments = getattr(module, f"{cls.__name__}Args")
    assert unknown(module, arguments, TYPES[token].inputs, cls.__name__) == []


@pytest.mark.parametrize("token", TYPES)
def test_outputs_are_properties_of_the_sdk_class(token: str) -> None:
    _, cls = class_of(token)
    assert [name for name in TYPES[token].outputs if name not in properties(cls)] == []


@pytest.mark.parametrize("token", TYPES)
def test_tokens_are_those_the_sdk_registers(token: str) -> None:
    _, cls = class_of(token)
    assert getattr(cls, "pulumi_type") == token  # noqa: B009 - set by the SDK at run time


def test_configuration_keys_are_those_of_the_sdk() -> None:
    arguments = properties(importlib.import_module("pulumi_gcp.provider").ProviderArgs)
    # The provider's class leaves one key out that stack configuration has.
    package = Path(str(importlib.import_module("pulumi_gcp").__file__)).parent
    variables = (package / "config" / "vars.py").read_text()
    assert [key for key in KNOWN if key not in arguments and f"('{key}')" not in variables] == []
