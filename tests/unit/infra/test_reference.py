"""Pulumi.yaml, docs/configuration.md and the stack files say what the code says."""

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from infra.problems import SettingsError
from infra.reference import configuration_md, engine_type, pulumi_yaml
from infra.rules import parse
from infra.settings import Settings, camel, declared_keys, default_of

ROOT = Path(__file__).parents[3]


def declared() -> dict:
    return yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]


def test_pulumi_yaml_is_what_the_code_writes():
    assert (ROOT / "Pulumi.yaml").read_text() == pulumi_yaml(), "run: python -m infra.reference"


def test_the_configuration_page_is_what_the_code_writes():
    assert (ROOT / "docs/configuration.md").read_text() == configuration_md(), "run: python -m infra.reference"


def test_pulumi_yaml_declares_exactly_the_fields_of_settings():
    not_keys = {"project", "region", "endpoints", "stack", "warnings"}
    assert set(declared()) == {f"gpujob:{camel(f.name)}" for f in fields(Settings) if f.name not in not_keys}


@pytest.mark.parametrize("name", sorted(declared_keys()))
def test_a_key_is_declared_with_its_type_default_and_description(name):
    entry, key_field = declared()[f"gpujob:{name}"], declared_keys()[name]
    default = default_of(key_field)
    assert entry["type"] == engine_type(key_field)
    assert entry["default"] == (list(default) if isinstance(default, tuple) else default)
    assert type(entry["default"]) in (str, int, bool, list, dict)
    assert len(entry["description"]) > 10


def test_the_defaults_that_the_engine_fills_in_are_the_defaults_of_the_code():
    """The engine hands every declared key over, defaults included, as text; lists and maps as JSON."""
    import json

    texts = {
        name.split(":")[1]: entry["default"] if isinstance(entry["default"], str) else json.dumps(entry["default"])
        for name, entry in declared().items()
    }
    filled = parse(texts, project="demo-project", region="europe-west4")
    assert filled == parse({}, project="demo-project", region="europe-west4")


def stack_file(stack: str) -> dict:
    return yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())


def parsed(stack: str, **instead) -> Settings:
    import json

    config = {**stack_file(stack)["config"], **instead}
    ours = {
        name.split(":")[1]: value if isinstance(value, str) else json.dumps(value)
        for name, value in config.items()
        if name.startswith("gpujob:")
    }
    return parse(ours, project=config["gcp:project"], region=config["gcp:region"])


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_a_real_stack_asks_for_its_project_first(stack):
    with pytest.raises(SettingsError, match="pulumi config set gcp:project YOUR-PROJECT-ID"):
        parsed(stack)


@pytest.mark.parametrize(("stack", "disposable"), [("dev", True), ("prod", False)])
def test_a_real_stack_works_once_it_has_a_project(stack, disposable):
    settings = parsed(stack, **{"gcp:project": "some-project"})
    assert settings.disposable is disposable
    assert settings.require_gpu


def test_the_local_stack_needs_no_gpu_and_talks_to_loopback_only():
    settings = parsed("local")
    assert settings.disposable
    assert not settings.require_gpu
    urls = [value for name, value in stack_file("local")["config"].items() if name.endswith("CustomEndpoint")]
    assert len(urls) == 11
    assert all(url.startswith("http://127.0.0.1:8790/") and url.endswith("/") for url in urls)


def test_the_local_stack_file_carries_its_salt_so_that_the_engine_never_rewrites_it():
    assert stack_file("local")["encryptionsalt"].startswith("v1:")
