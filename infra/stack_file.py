"""A stack's settings read from its file, without the engine: for who must know names when nothing is deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from infra.problems import SettingsError
from infra.rules import parse
from infra.settings import NAMESPACE, Settings


class StackFileError(ValueError):
    """The file is not there, is no stack's file, or its settings cannot work. The text says which."""


def configuration(file: Path) -> dict[str, Any]:
    """The entries under `config:`. Raises StackFileError."""
    try:
        content: Any = yaml.safe_load(file.read_text())
    except OSError as error:
        raise StackFileError(f"{file} cannot be read: {error.strerror}.") from None
    except yaml.YAMLError as error:
        raise StackFileError(f"{file} is not YAML: {error}.") from None
    config: Any = content.get("config") if isinstance(content, dict) else None
    if not isinstance(config, dict):
        raise StackFileError(f"{file} has no `config:`, so it is no stack's file.")
    return config


def settings_in(file: Path) -> Settings:
    """The settings that `pulumi up` would take from `file`. Raises StackFileError."""
    config = configuration(file)
    ours = {
        name.removeprefix(f"{NAMESPACE}:"): value if isinstance(value, str) else json.dumps(value)
        for name, value in config.items()
        if name.startswith(f"{NAMESPACE}:")
    }
    try:
        return parse(ours, project=str(config.get("gcp:project", "")), region=str(config.get("gcp:region", "")))
    except SettingsError as error:
        raise StackFileError(f"{file}: {error}") from None
