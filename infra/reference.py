"""Writes what repeats the settings for readers and for the engine: Pulumi.yaml and docs/configuration.md.

python -m infra.reference          # write both; a test fails where they differ from the code
"""

from __future__ import annotations

import json
from dataclasses import Field
from pathlib import Path
from typing import Any

from infra.settings import NAMESPACE, declared_keys, default_of

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

_DOC_HEAD = """\
# Configuration

Every key of a stack file. Written by `python -m infra.reference` from `infra/settings.py`; a test holds it to the code.

    pulumi config set gpujob:KEY VALUE                     # a text, number or boolean
    pulumi config set --path 'gpujob:workloadArgs[0]' VALUE  # an item of a list

Two keys of the Google provider must be set: `gcp:project` and `gcp:region`. A key that does not exist, a value that
cannot work and values that do not go together are refused before anything is created, all of them at once, each with
the line to paste. `image` pinned means that nothing is built: no build account, no source bucket, and no repository
unless the image comes out of it.

| key | type | default | what it is | allowed | a change |
|---|---|---|---|---|---|
"""

_RULES = """
## Rules between keys

- The GPU must be offered in `gcp:region`; regions that Google opens by invitation give a warning.
- `cpu` and `memory` have floors and ceilings by GPU, and no vCPU may have more than 4Gi.
- `timeout` above 3600s gives a warning (a GPU task that long may need preview access) and declares the job with
  launch stage BETA; above 43200s a loud one; above 604800s it is refused. It is billed in full for each attempt:
  `timeout` x (`maxRetries` + 1) x `taskCount` is what one execution can cost at worst, exported as `exposureGpuHours`
  and `exposureUsd`.
- `parallelism` is at most `taskCount`.
- Names are checked as they will be sent, with `nameSuffix`.
- Environment variables that Cloud Run sets (`CLOUD_RUN_*`) or the job sets itself (`CHECKPOINT_DIR`, `MAX_RETRIES`,
  `REQUIRED_GPU`, `TASK_TIMEOUT_S`) cannot be set by `env`.

## The three stack files

- `Pulumi.dev.yaml`: disposable; builds its image. Set your project:
  `pulumi config set gcp:project YOUR-PROJECT-ID -s dev`.
- `Pulumi.prod.yaml`: protected. To tear it down: `pulumi config set gpujob:disposable true -s prod`,
  `pulumi up -s prod`, `pulumi destroy -s prod`.
- `Pulumi.local.yaml`: the local cloud on its default port. Its passphrase is `local`: there is nothing secret in it,
  and the committed salt keeps the file as it is. Another port: a copy of it, given to the engine by `--config-file`.

`pulumi stack init` adds a salt, or the name of your key, to `Pulumi.dev.yaml` and `Pulumi.prod.yaml`: commit that with
your project.

## What whoever runs `pulumi up` must be allowed

Roles on the project: `roles/serviceusage.serviceUsageAdmin`, `roles/iam.serviceAccountAdmin`,
`roles/iam.serviceAccountUser`, `roles/resourcemanager.projectIamAdmin` (one grant: the build account may write logs),
`roles/storage.admin`, `roles/artifactregistry.admin`, `roles/cloudbuild.builds.editor`, `roles/run.admin`,
`roles/logging.viewer` (to show the end of a failed build's log). A stack with a pinned `image` needs neither the Cloud
Build nor the project IAM role.
"""


def pulumi_yaml() -> str:
    """The project file."""
    return _YAML_HEAD + "".join(_declaration(name, key_field) for name, key_field in declared_keys().items())


def configuration_md() -> str:
    """The configuration page."""
    return _DOC_HEAD + "".join(_row(name, key_field) for name, key_field in declared_keys().items()) + _RULES


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
    kind = engine_type(key_field).replace("array", "list of strings").replace("object", "map of strings")
    return f"| `{name}` | {kind} | `{_default(key_field)}` | {_meaning(key_field)} | {allowed} | {effect} |\n"


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
