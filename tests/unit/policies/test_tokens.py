"""What the policies look for exists in the Google provider's SDK: type tokens, and every property at every depth."""

import importlib
import inspect
import typing
from types import ModuleType
from typing import Any

import pulumi
import pytest
from pulumi import _types

from policies.rules import RULES, tokens
from tests.policies.examples import examples


def loaded(name: str) -> ModuleType:
    """The SDK's modules are lazy: they are empty until something is looked up in them."""
    module = importlib.import_module(f"pulumi_gcp.{name}")
    hasattr(module, "anything")
    return module


MODULES = [
    loaded(name)
    for name in ("artifactregistry", "cloudrunv2", "folder", "organizations", "projects", "serviceaccount", "storage")
]
CLASSES = {
    resource.pulumi_type: resource
    for module in MODULES
    for _, resource in inspect.getmembers(module, inspect.isclass)
    if issubclass(resource, pulumi.CustomResource)
}
NAMED = {
    name: value
    for name, value in vars(tokens).items()
    if name.isupper() and isinstance(value, str) and "\\" not in value
}


@pytest.mark.parametrize("name", NAMED)
def test_a_token_names_a_resource_of_the_sdk(name: str):
    assert NAMED[name] in CLASSES


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.title)
def test_every_property_of_an_example_exists_in_the_sdk(example):
    resource = CLASSES[example.resource.type]
    arguments = getattr(importlib.import_module(resource.__module__), f"{resource.__name__}Args")
    assert list(misspelt(example.resource.props, arguments)) == []


def test_the_expression_for_grants_matches_exactly_the_sdks_iam_resources():
    def grants(resource: type) -> bool:
        names = set(inspect.signature(resource._internal_init).parameters)
        return bool(names & {"member", "members", "policy_data"}) and "Remove" not in resource.__name__

    rule = next(rule for rule in RULES if rule.name == "no-basic-roles")
    found = {token for token in CLASSES if rule.applies_to(token)}
    assert found == {token for token, resource in CLASSES.items() if grants(resource)}
    assert len(found) > 20


def misspelt(props: Any, kind: Any) -> typing.Iterator[str]:
    """Names that the SDK's input type does not have, at any depth."""
    if isinstance(props, list):
        (element,) = typing.get_args(kind)
        for item in props:
            yield from misspelt(item, typing.get_args(element)[0])
    elif isinstance(props, dict) and typing.get_origin(kind) is None:
        types = _types.input_type_types(kind)
        for name, value in props.items():
            if name in types:
                yield from misspelt(value, types[name])
            else:
                yield f"{kind.__name__}.{name}"
