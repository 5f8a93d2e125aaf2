"""The whole inputs of everything that the bootstrap registers, and what is not registered."""

from __future__ import annotations

import importlib
import inspect
import runpy
from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from policies.rules import RULES
from policies.rules.rule import Resource
from tests.bootstrap.acme import TREE
from tests.bootstrap.expected import EXPECTED
from tests.infra.conftest import Registered, run


def test_registers_this_whole_and_nothing_else(registered: Registered) -> None:
    made = {which: inputs for which, inputs in registered.inputs.items() if not which[0].startswith("gpujob:")}
    assert made == EXPECTED


def test_every_type_is_one_that_the_sdk_registers() -> None:
    known: set[str] = set()
    for name in ("iam", "kms", "projects", "serviceaccount", "storage"):
        module = importlib.import_module(f"pulumi_gcp.{name}")
        hasattr(module, "anything")  # the SDK's modules are empty until something is looked up in them
        classes = (resource for _, resource in inspect.getmembers(module, inspect.isclass))
        known |= {str(getattr(resource, "pulumi_type", "")) for resource in classes}
    assert {kind for kind, _ in EXPECTED} <= known


def test_state_and_key_cannot_just_be_deleted(registered: Registered) -> None:
    kept = ("gcp:storage/bucket:Bucket", "gcp:kms/keyRing:KeyRing", "gcp:kms/cryptoKey:CryptoKey")
    assert all(options.protect for (kind, _), options in registered.options.items() if kind in kept)


def test_every_policy_is_satisfied(registered: Registered) -> None:
    found = [
        message
        for (kind, name), inputs in registered.inputs.items()
        for rule in RULES
        if rule.applies_to(kind)
        for message in rule.violations(
            Resource(
                kind,
                f"urn:pulumi:prod::gpujob-bootstrap::{kind}::{name}",
                inputs,
                protect=bool(registered.options[kind, name].protect),
                options={option.name: option.default for option in rule.options},
            )
        )
    ]
    assert found == []


def test_a_wrong_setting_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    program: Callable[[], Any] = lambda: runpy.run_path(  # noqa: E731
        str(TREE / "bootstrap" / "__main__.py"), run_name="__main__"
    )
    with pytest.raises(pulumi.RunError, match="2 settings of this stack cannot work; nothing was created"):
        run(monkeypatch, program, namespace="gpujob-bootstrap")
