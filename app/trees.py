"""The line of a program that writes its checkpoints as files: HF Trainer, Lightning, anything with an output directory.

from app.trees import TreeLine

line = TreeLine.open()                    # this task's line, as CHECKPOINT_DIR and Cloud Run's environment say
line.restore("out")                       # the newest tree that verifies; on a fresh line nothing
line.commit(step, "out")                  # after the program wrote its own checkpoint there
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app import logs, provenance, startup
from app.checkpoint.line import Line
from app.checkpoint.storage.patience import StoreUnavailable, patiently
from app.checkpoint.trees.source import TreeChanged
from app.checkpoint.trees.tree import commit_tree, restore_tree
from app.checkpoint.writer import Origin
from app.contract import Task

if TYPE_CHECKING:
    from app.checkpoint.names import CheckpointName
    from app.startup import Start


@dataclass
class TreeLine:
    """One attempt on a line of directory trees. Used by one thread at a time."""

    start: Start
    line: Line
    step: int = 0
    """Of what was restored or committed last; 0 before."""
    _resumed_from: str | None = None

    @classmethod
    def open(cls, *, keep: int = 3) -> TreeLine:
        """Claims an epoch. `keep` verified trees stay (2 or more). Raises Refusal, StoreUnavailable."""
        task = Task.from_environment(os.environ)
        start = startup.begin(task, startup.open_store(task))
        return cls(start, Line(start.store, start.ledger.attempt, keep))

    def restore(self, directory: str | os.PathLike[str]) -> int | None:
        """Put the newest tree at `directory`, absent or empty so far, and give its step; None on a fresh line.

        Raises what `restore_tree` raises.
        """
        name = restore_tree(self.line, directory, ever_committed=self.start.ever_committed)
        if name is None:
            return None
        self.step, self._resumed_from = name.step, str(name)
        self.start.ledger.resumed(str(name), name.step)
        logs.info(f"Resuming from checkpointed step {name.step}.", step=name.step, checkpoint=str(name))
        return name.step

    def commit(
        self, step: int, directory: str | os.PathLike[str], identity: dict[str, Any] | None = None
    ) -> CheckpointName | None:
        """Everything below `directory` is durable when this returns a name.

        A save that fails must not end the run: trouble with storage is tried several times and then logged, as is a
        directory that changed meanwhile, and None is returned; the next commit may be better off. Raises Superseded,
        Refusal on a session's line, and Unsavable for what no checkpoint can hold.
        """
        origin = Origin(identity or {}, provenance.environment(), self._resumed_from)
        try:
            name = patiently(
                lambda: commit_tree(self.line, step, directory, origin),
                f"Committing step {step}",
                but=(FileNotFoundError,),
                sleep=self.line.sleep,
            )
        except (TreeChanged, StoreUnavailable, FileNotFoundError) as error:
            logs.error(f"Step {step} was not committed: {error.__cause__ or error}. Earlier ones are safe.", step=step)
            return None
        self.step = step
        self.start.ledger.durable(step, step)
        logs.info(f"Checkpoint {name} is durable.", step=step, durable_step=step, checkpoint=str(name))
        return name
