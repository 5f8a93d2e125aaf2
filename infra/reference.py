"""Writes what repeats the settings for readers and for the engine: Pulumi.yaml and docs/configuration.md.

python -m infra.reference          # write both; a test fails where they differ from the code
"""

from __future__ import annotations

import json
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from infra import job_fields
from infra.exposure import LOST_S, RESTART_S, expected_case
from infra.reference_text import HEAD, RULES
from infra.settings import GROUPS, NAMESPACE, Settings, camel, declared_keys, default_of

ROOT = Path(__file__).parents[1]

_YAML_HEAD = """\
# The project, and every key that a stack may set. Written by `python -m infra.reference` from infra/settings.py.
# Each key has a default: the engine would ask for one that has none.
name: gpujob
description: Long GPU training on Cloud Run jobs that survives interruptions.
runtime:
  name: python
  options:
    virtualenv: .venv
config:
"""


def pulumi_yaml() -> str:
    """The project file."""
    return _YAML_HEAD + "".join(_declaration(name, key_field) for name, key_field in declared_keys().items())


def configuration_md() -> str:
    """The configuration page."""
    groups = "".join(_group(title, keys) for title, keys in GROUPS.items())
    return HEAD + groups + RULES + _cost() + _job_fields()


def _group(title: str, keys: type) -> str:
    rows = "".join(_row(camel(f.name), f) for f in fields(keys))
    return (
        f"\n## {title}\n\n| key | type | default | what it is | allowed | a change |\n|---|---|---|---|---|---|\n{rows}"
    )


def _cost() -> str:
    """Expected cost beside the worst case, at the defaults."""
    defaults = Settings(project="any-project", region="europe-west4")
    worst = defaults.exposure
    lines = [
        "\n## What an execution costs\n",
        f"With the defaults ({defaults.gpu_type}, {defaults.timeout_s / 3600:g} h an attempt, {defaults.max_retries} "
        f"retries) an hour costs {defaults.usd_per_hour:.2f} USD,",
        f"and one execution {worst.gpu_hours:g} GPU hours or {worst.usd:.2f} USD at worst. `maxExposureUsd` refuses a "
        "stack that could",
        "cost more. What is to be expected depends on how long the training would take undisturbed",
        "(`trainingHours`) and how often it is interrupted (`interruptionsPerDay`). With the former set it is",
        "exported as `expectedGpuHours` and `expectedUsd`, and shown in the preview:\n",
        "| training | interruptions a day | GPU hours | USD | done within the retries of one execution |",
        "|---|---|---|---|---|",
    ]
    for work_h in (8, 24, 40):
        for rate in (0, 1, 4):
            expected = expected_case(
                work_h=work_h,
                interruptions_per_day=rate,
                timeout_s=defaults.timeout_s,
                max_retries=defaults.max_retries,
                tasks=1,
                usd_per_hour=defaults.usd_per_hour,
            )
            numbers = f"{expected.gpu_hours:.1f} | {expected.usd:.2f} | {expected.finished:.0%}"
            lines.append(f"| {work_h} h | {rate} | {numbers} |")
    lines.append(
        f"\nAssumed: interruptions come at random, each attempt needs {RESTART_S} s before its first new step, an\n"
        f"interruption loses {LOST_S} s of training, a timeout none (`expected_case` in `infra/exposure.py`). Where\n"
        "the retries are spent the execution fails, and the next one resumes; it is counted here too.\n"
    )
    return "\n".join(lines)


def _job_fields() -> str:
    """Every field of the job, from the table that a test holds against the SDK."""
    rows = [(field, ", ".join(f"`{name}`" for name in names)) for field, names in job_fields.SET_BY.items()]
    rows += [(field, f"fixed: {why}") for field, why in job_fields.FIXED.items()]
    rows += [(field, f"not offered: {why}") for field, why in job_fields.LEFT_OUT.items()]
    head = (
        "\n## Every field of the job\n\n"
        "All that Google's provider can send for a Cloud Run job, by its Python names. A test walks the SDK's classes\n"
        "and fails on a field that is missing here.\n\n"
        "| field | decided by |\n|---|---|\n"
    )
    return head + "".join(f"| `{field}` | {by} |\n" for field, by in sorted(rows))


def engine_type(key_field: Field[Any]) -> str:
    """The type as Pulumi.yaml names it."""
    kind = str(key_field.type)
    simple = {"str": "string", "int": "integer", "bool": "boolean"}
    return simple.get(kind) or ("array" if kind.startswith("tuple") else "object")


def _declaration(name: str, key_field: Field[Any]) -> str:
    kind = engine_type(key_field)
    lines = [f"  {NAMESPACE}:{name}:", f"    type: {kind}"]
    if kind == "array":
        lines += ["    items:", "      type: string"]
    lines += [f"    default: {_default(key_field)}", f"    description: {json.dumps(_meaning(key_field))}"]
    return "\n".join(lines) + "\n"


def _row(name: str, key_field: Field[Any]) -> str:
    allowed, effect = key_field.metadata["allowed"], key_field.metadata["effect"]
    kind = engine_type(key_field).replace("array", "list of strings").replace("object", _map_of(key_field))
    return f"| `{name}` | {kind} | `{_default(key_field)}` | {_meaning(key_field)} | {allowed} | {effect} |\n"


def _map_of(key_field: Field[Any]) -> str:
    return "map of strings" if str(key_field.type) == "Mapping[str, str]" else "map of entries"


def _meaning(key_field: Field[Any]) -> str:
    return str(key_field.metadata["meaning"])


def _default(key_field: Field[Any]) -> str:
    value = default_of(key_field)
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def main() -> None:
    """Write both files."""
    for path, text in ((ROOT / "Pulumi.yaml", pulumi_yaml()), (ROOT / "docs" / "configuration.md", configuration_md())):
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
