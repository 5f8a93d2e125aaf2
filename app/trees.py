"""The line of a program that writes its checkpoints as files: HF Trainer, Lightning, anything with an output directory.

from app.trees import TreeLine

with TreeLine.open() as line:             # this task's line, as CHECKPOINT_DIR and Cloud Run's environment say
    line.restore("out")                   # the newest tree that verifies; on a fresh line nothing
    line.commit(step, "out")              # after the program wrote its own checkpoint there
"""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from app import logs, provenance, shutdown, startup
from app.checkpoint.line import Line
from app.checkpoint.storage.patience import StoreUnavailable, patiently
from app.checkpoint.trees.looking import TreeChanged
from app.checkpoint.trees.tree import commit_tree, restore_tree
from app.checkpoint.writer import Origin
from app.contract import ExitCode, Reason, Task, TaskError
from app.loop import script

if TYPE_CHECKING:
    from types import TracebackType

    from app.checkpoint.names import CheckpointName
    from app.startup import Start


@dataclass
class TreeLine:
    """One attempt on a line of directory trees. Used by one thread at a time.

    As a context manager it ends with its block. Without one it ends with the process: the ledger then says when, and
    why only if an error ended it.
    """

    start: Start
    line: Line
    step: int = 0
    """Of what was restored or committed last; 0 before."""
    _resumed_from: str | None = None
    _pid: int = field(default_factory=os.getpid)

    @classmethod
    def open(cls, *, keep: int = 3) -> TreeLine:
        """Claims an epoch. `keep` verified trees stay (2 or more).

        Raises Refusal, StoreUnavailable. What the script does not catch then ends it with the exit code of
        docs/exit-codes.md.
        """
        script.end_with_an_exit_code(shutdown.process)
        task = Task.from_environment(os.environ)
        start = startup.begin(task, startup.open_store(task))
        opened = cls(start, Line(start.store, start.ledger.attempt, keep))
        shutdown.process.before_leaving(opened._end)
        atexit.register(opened._end, None, None)
        return opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code, reason = ExitCode.DONE, Reason.FINISHED
        if isinstance(error, TaskError):
            code, reason = error.exit_code, error.reason
        elif error is not None and not (isinstance(error, SystemExit) and error.code in {None, 0}):
            code, reason = ExitCode.FAILED, Reason.FAILED
        self._end(code, reason)
        shutdown.process.forget(self._end)
        atexit.unregister(self._end)

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

    def _end(self, code: int | None, reason: Reason | None) -> None:
        if os.getpid() == self._pid:  # a forked child may leave the block too, or end by sys.exit
            self.start.ledger.end(code, reason, self.step)
