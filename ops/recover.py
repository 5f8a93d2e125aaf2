"""`gpujob recover`: makes a stack whole again after its `pulumi up` was killed.

A killed engine leaves a lock, and perhaps objects that it had asked for but not yet written to its state: the state
then only lists their creation as pending. An object of a fixed name is imported under it, one that Google names is
looked for by what it says. Nothing is deleted.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from infra.stack_file import StackFileError, configuration
from ops.errors import MisconfiguredError, OpsError, RefusedError
from ops.recover_named import NAMED_KINDS, candidates

# The identifier under which an object of a fixed name can be imported, from the inputs of its pending creation.
# Grants and enabled services are not here: creating those a second time is the same as once.
_IMPORT_IDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "gcp:serviceaccount/account:Account": lambda inputs: (
        f"projects/{inputs['project']}/serviceAccounts/"
        f"{inputs['accountId']}@{inputs['project']}.iam.gserviceaccount.com"
    ),
    "gcp:storage/bucket:Bucket": lambda inputs: f"{inputs['name']}",
    "gcp:artifactregistry/repository:Repository": lambda inputs: (
        f"projects/{inputs['project']}/locations/{inputs['location']}/repositories/{inputs['repositoryId']}"
    ),
    "gcp:cloudrunv2/job:Job": lambda inputs: (
        f"projects/{inputs['project']}/locations/{inputs['location']}/jobs/{inputs['name']}"
    ),
    "gcp:logging/metric:Metric": lambda inputs: f"{inputs['name']}",
}
_GONE = ("does not exist", "not found", "no resource")


@dataclass(frozen=True)
class PendingCreate:
    """A creation that the state does not know the end of."""

    urn: str
    type: str
    import_id: str | None
    """None where Google names it, or creating it again is harmless."""
    parent: str | None
    inputs: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.urn.rpartition("::")[2]


def pending_creates(state: Mapping[str, Any]) -> list[PendingCreate]:
    """The pending creations in an exported state."""
    found: list[PendingCreate] = []
    for operation in state["deployment"].get("pending_operations") or []:
        if operation["type"] != "creating":
            continue
        resource = operation["resource"]
        identify = _IMPORT_IDS.get(resource["type"])
        inputs: Mapping[str, Any] = resource.get("inputs") or {}  # left out where there are none
        import_id = identify(inputs) if identify and inputs else None
        found.append(PendingCreate(resource["urn"], resource["type"], import_id, resource.get("parent"), inputs))
    return found


def remove_torn_side_files(folder: Path) -> list[Path]:
    """Delete the unreadable `.attrs` files of a backend in a folder; return their paths.

    The engine writes each state file whole (under another name, then renamed) but the content type beside it in place.
    A kill in the middle leaves an empty one, with which the state cannot be loaded ("failed to load checkpoint: EOF"),
    while without it, it can.
    """
    torn: list[Path] = []
    for path in sorted(folder.rglob("*.attrs")):
        try:
            json.loads(path.read_text())
        except ValueError:
            path.unlink()
            torn.append(path)
    return torn


class Recovery:
    """The engine's commands for one stack, each shown before it runs."""

    def __init__(self, tree: Path, stack: str, config_file: Path | None, say: Callable[[str], None]) -> None:
        self._tree = tree
        self._stack = stack
        self._stack_file = config_file or tree / f"Pulumi.{stack.rpartition('/')[2]}.yaml"
        self._config = ["--config-file", str(config_file)] if config_file else []
        self._say = say

    def run(self) -> None:
        """Cancel the lock, take over what exists, forget what does not.

        Raises:
            MisconfiguredError: no `pulumi`, or no such stack.
            RefusedError: the engine refused a step; nothing that exists was removed.
        """
        self._mend_side_files()
        self._pulumi("cancel", "--yes", tolerate=("not locked", "no update", "has never been updated"))
        state: dict[str, Any] = json.loads(self._pulumi("stack", "export"))
        pending = pending_creates(state)
        self._say(f"{len(pending)} creations were under way when the engine was killed.")
        if state["deployment"].get("resources"):
            self._pulumi("refresh", "--yes", "--skip-preview", "--clear-pending-creates", *self._config)
        known = {str(resource.get("id")) for resource in state["deployment"].get("resources") or []}
        for create in pending:
            if create.import_id:
                self._take_over(create, create.import_id)
            elif create.type in NAMED_KINDS and create.inputs:
                self.find(create, known)
        self._say("The stack is whole again. Run `pulumi up` to finish what was interrupted.")

    def _mend_side_files(self) -> None:
        backend = json.loads(self._pulumi("whoami", "--json", "--verbose", on_stack=False))["url"]
        if backend.startswith("file://"):
            folder = Path(url2pathname(urlsplit(backend).path)).expanduser() / ".pulumi"
            for path in remove_torn_side_files(folder):
                self._say(f"Removed {path}, which was cut off in the middle; the engine writes it anew.")

    def find(self, create: PendingCreate, known: set[str]) -> None:
        """Take over an object that Google named, and say which others are the same."""
        shown = f"{create.type} {create.inputs.get('displayName') or create.name}"
        try:
            found = candidates(create.type, create.inputs, known, configuration(self._stack_file))
        except (OpsError, StackFileError) as error:
            self._say(
                f"{shown}: was perhaps created, and could not be looked for: {error} If it was, there are two after "
                "the next `pulumi up`. Delete the older one in the console (Monitoring); neither does harm."
            )
            return
        if not found:
            self._say(f"{shown}: was not created")
            return
        names = [str(one["name"]) for one in found]
        self._take_over(create, names[-1])
        known.add(names[-1])
        for name in names[:-1]:
            remove = NAMED_KINDS[create.type].remove.format(name=name)
            self._say(f"{shown}: {name} is the same and not this stack's own. Look at it, then: {remove}")

    def _take_over(self, create: PendingCreate, import_id: str) -> None:
        parent = ["--parent", f"parent={create.parent}"] if create.parent else []
        output = self._pulumi(
            "import", create.type, create.name, import_id, *parent, "--generate-code=false", "--protect=false",
            "--yes", "--skip-preview", *self._config, tolerate=_GONE,
        )  # fmt: skip
        gone = any(word in output for word in _GONE)
        self._say(f"{create.type} {import_id}: {'was not created' if gone else 'taken over'}")

    def _pulumi(self, *arguments: str, tolerate: Sequence[str] = (), on_stack: bool = True) -> str:
        shown = ["pulumi", *arguments, *(["--stack", self._stack] if on_stack else [])]
        command = [*shown, "--non-interactive", "--color", "never"]
        self._say(f"$ {' '.join(shown)}")
        try:
            done = subprocess.run(command, cwd=self._tree, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise MisconfiguredError(
                "No `pulumi` on PATH. Nothing was changed. For the local cloud, first load its environment: "
                '`eval "$(gpujob local env)"`.'
            ) from None
        said = done.stdout + done.stderr
        if done.returncode != 0 and not any(word in said for word in tolerate):
            raise RefusedError(
                f"`{' '.join(command)}` ended with {done.returncode}: {said.strip()}\n"
                f"Nothing in the cloud was removed. Stack {self._stack} is as that command left it; correct what it "
                "names and run `gpujob recover` again."
            )
        return done.stdout if done.returncode == 0 else said
