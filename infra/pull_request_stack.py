"""The stack file of a pull request's own stack: dev's settings, under names of its own, perhaps in another project.

    python -m infra.pull_request_stack 12 --project PROJECT --secrets-provider gcpkms://...

It is written where it is needed and never committed: a stack that lives for days leaves no file behind.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from infra.settings import NAMESPACE
from infra.stack_file import StackFileError, configuration, settings_in

SOURCE = "dev"
_OWN: dict[str, Any] = {
    f"{NAMESPACE}:disposable": True,
    # Nobody wants to be woken by a stack that is somebody's attempt.
    f"{NAMESPACE}:observability": False,
}


def stack_name(number: str) -> str:
    """`12` -> `pr-12`, which is the name of the stack and the suffix of what it makes. Raises StackFileError."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}", number):
        raise StackFileError(f"{number!r} is not the number of a pull request.")
    return f"pr-{number}"


def stack_file(folder: Path, number: str, secrets_provider: str = "", project: str = "") -> Path:
    """Write the file of that pull request's stack beside dev's, and return its path. `project` empty: dev's.

    Raises:
        StackFileError: dev's file is missing, wrong or holds what only dev can decrypt. Nothing was written.
    """
    source, name = folder / f"Pulumi.{SOURCE}.yaml", stack_name(number)
    config = configuration(source)
    sealed = [key for key, value in config.items() if isinstance(value, dict) and "secure" in value]
    if sealed:
        raise StackFileError(
            f"{source} holds encrypted values ({', '.join(sealed)}), which only {SOURCE}'s own key opens; "
            f"{name} cannot take them over. Nothing was written. Keep secrets in Secret Manager (gpujob:secrets)."
        )
    settings_in(source)
    place = {"gcp:project": project} if project else {}
    own = {**config, **place, **_OWN, f"{NAMESPACE}:nameSuffix": name}
    provider = {"secretsprovider": secrets_provider} if secrets_provider else {}
    target = folder / f"Pulumi.{name}.yaml"
    target.write_text(yaml.safe_dump({"config": own, **provider}, sort_keys=False))
    settings_in(target)
    return target


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.pull_request_stack", description=__doc__)
    parser.add_argument("number", help="of the pull request")
    parser.add_argument("--project", default="", help="where it is deployed; empty: dev's project")
    parser.add_argument("--secrets-provider", default="", help="what encrypts the stack's secrets, gcpkms://...")
    given = parser.parse_args(arguments)
    try:
        written = stack_file(Path.cwd(), given.number, given.secrets_provider, given.project)
    except StackFileError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"wrote {written.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
