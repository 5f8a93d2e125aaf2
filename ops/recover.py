"""`gpujob recover`: makes a stack whole again after its `pulumi up` was killed.

A killed engine leaves a lock, and perhaps objects that it had asked for but not yet written to its state: the state
then only lists their creation as pending. An object of a fixed name is imported under it if it says that this stack
made it; one that Google names is looked for by what it says. Nothing is deleted.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from infra.ownership import LABEL, mark, owner_of
from infra.stack_file import StackFileError, configuration, settings_in
from ops.errors import MisconfiguredError, OpsError, RefusedError
from ops.recover_named import NAMED_KINDS, candidates
from ops.recover_owner import JOB, existing, refusal
from ops.recover_state import PendingCreate, pending_creates, remove_torn_side_files

_GONE = ("does not exist", "not found", "no resource")


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
        refused: list[str] = []
        for create in pending:
            if create.import_id:
                refused += self.take_if_ours(create, create.import_id, known)
            elif create.type in NAMED_KINDS and create.inputs:
                refused += self.find(create, known)
        if refused:
            raise RefusedError(
                f"{len(refused)} objects were not taken over into stack {self._stack}:\n"
                + "\n".join(f"  - {one}" for one in refused)
                + "\nNothing was changed about them; all else of this stack is whole again. Where another stack made "
                "them, the two share names: give this one a gpujob:nameSuffix, then `pulumi up`. Where you know that "
                "one is this stack's, run the line beside it."
            )
        self._say("The stack is whole again. Run `pulumi up` to finish what was interrupted.")

    def _mend_side_files(self) -> None:
        backend = json.loads(self._pulumi("whoami", "--json", "--verbose", on_stack=False))["url"]
        if backend.startswith("file://"):
            folder = Path(url2pathname(urlsplit(backend).path)).expanduser() / ".pulumi"
            for path in remove_torn_side_files(folder):
                self._say(f"Removed {path}, which was cut off in the middle; the engine writes it anew.")

    def take_if_ours(self, create: PendingCreate, import_id: str, known: set[str]) -> list[str]:
        """Take over an object of a fixed name if it says that this stack made it; else say why not, and whose it is."""
        by_hand = f"pulumi import {' '.join(self._import(create, import_id))} --stack {self._stack}"
        try:
            there = existing(create.type, create.inputs, configuration(self._stack_file))
        except (OpsError, StackFileError) as error:
            return [
                f"{create.type} {import_id}: whose it is could not be asked: {error} The state has forgotten that it "
                "was under way, so `gpujob recover` will not ask again: look whether it is there and whose it is."
                f"\n      {by_hand}"
            ]
        if there is None:
            self._say(f"{create.type} {import_id}: was not created")
            return []
        why = refusal(create.type, create.inputs, there)
        if why:
            return [f"{why}.\n      {by_hand}"]
        self._take_over(create, import_id)
        known.add(import_id)
        return []

    def find(self, create: PendingCreate, known: set[str]) -> list[str]:
        """Take over an object that Google named, and say which others are the same; return why one was not taken."""
        shown = f"{create.type} {create.inputs.get('displayName') or create.name}"
        try:
            found = candidates(create.type, create.inputs, known, configuration(self._stack_file))
        except (OpsError, StackFileError) as error:
            self._say(
                f"{shown}: was perhaps created, and could not be looked for: {error} If it was, there are two after "
                "the next `pulumi up`. Delete the older one in the console (Monitoring); neither does harm."
            )
            return []
        if not found:
            self._say(f"{shown}: was not created")
            return []
        names = [str(one["name"]) for one in found]
        if not owner_of(create.inputs):
            why = self._of_another_job(known)
            if why:
                return [f"{shown} {names[-1]} cannot say whose it is, and {why}"]
        self._take_over(create, names[-1])
        known.add(names[-1])
        for name in names[:-1]:
            remove = NAMED_KINDS[create.type].remove.format(name=name)
            self._say(f"{shown}: {name} is the same and not this stack's own. Look at it, then: {remove}")
        return []

    def _of_another_job(self, known: set[str]) -> str:
        """Why what shows a job and bears no mark is not this stack's: the job is another's. Empty where it is not."""
        try:
            settings, config = settings_in(self._stack_file), configuration(self._stack_file)
            place = {"project": settings.project, "location": settings.region, "name": settings.job}
            job = existing(JOB, place, config)
        except (OpsError, StackFileError) as error:
            return f"the job that it shows could not be asked: {error}"
        ours = {LABEL: mark(self._stack.rpartition("/")[2])}
        if job is None or str(job["name"]) in known:
            return ""
        why = refusal(JOB, {**place, "labels": ours}, job)
        return f"it shows a job that is not this stack's: {why}." if why else ""

    def _import(self, create: PendingCreate, import_id: str) -> list[str]:
        parent = ["--parent", f"parent={create.parent}"] if create.parent else []
        return [create.type, create.name, import_id, *parent, "--generate-code=false", "--protect=false"]

    def _take_over(self, create: PendingCreate, import_id: str) -> None:
        output = self._pulumi(
            "import", *self._import(create, import_id), "--yes", "--skip-preview", *self._config, tolerate=_GONE
        )
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
