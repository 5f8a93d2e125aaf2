"""`python -m app [workload] [flags]`: signals first, then the contract, then torch, then the workload."""

from app import shutdown

shutdown.process.install()  # before any other import: PID 1 without a handler never hears SIGTERM

import os  # noqa: E402
import sys  # noqa: E402
from typing import NoReturn  # noqa: E402

from app import logs, startup  # noqa: E402
from app.checkpoint.prefetch import Prefetch  # noqa: E402
from app.command import Command, HelpShown, parse  # noqa: E402
from app.contract import ExitCode, Reason, Task, TaskError  # noqa: E402

DONE = (ExitCode.DONE, Reason.FINISHED)
FAILED = (ExitCode.FAILED, Reason.FAILED)


def attempt(arguments: list[str]) -> tuple[ExitCode, Reason]:
    """One task attempt from start to end, which is told in the log. DONE only if the work is complete."""
    which = ""
    try:
        command = parse(arguments)
        task = Task.from_environment(os.environ)
        which = f" ({task.which_attempt})" if task.max_retries is not None else ""
        complete = work(command, task)
    except HelpShown:
        return DONE
    except TaskError as end:
        (logs.warning if end.exit_code == ExitCode.HANDED_OFF else logs.error)(f"{end}{which}")
        return end.exit_code, end.reason
    except BaseException as error:  # SystemExit too: the code that the platform sees is ours to choose
        logs.failure(f"The program failed{which}. What was durable is safe; a retry resumes from there.", error)
        return FAILED
    if complete:
        return DONE
    logs.error(
        f"The workload ended before its work was complete{which}. Exit code 0 would tell the platform that all is "
        "done. Go through all of run.steps(), or call run.finish_early(). What was durable is safe; a retry "
        "resumes from there."
    )
    return FAILED


def work(command: Command, task: Task) -> bool:
    """Whether the work is complete after it. Raises TaskError for every other end that has a name."""
    flags, identity = command.flags, command.workload.identity(command.flags)
    store = startup.open_store(task)
    done = startup.finished(task, store, flags.steps)
    if done is not None and all(done.get("identity", {}).get(key) == value for key, value in identity.items()):
        logs.info(
            f"Finished already, at step {done['step']} ({done.get('finished_at')}): nothing to do.", step=done["step"]
        )
        return True
    start = startup.begin(task, store, ahead=Prefetch(store))
    shutdown.process.before_leaving(lambda code, reason: start.ledger.end(code, reason, start.ledger.record.last_step))
    if task.required_gpu:
        from app import accelerator

        accelerator.require(task.required_gpu)
    try:
        command.workload.run(flags, start)
    except SystemExit as early:
        if early.code:  # else as if it had returned
            raise
    return start.ledger.record.reason is Reason.FINISHED


def main() -> NoReturn:
    logs.adopt_library_logs()
    code, reason = attempt(sys.argv[1:])
    if shutdown.process.noticed.is_set() and code != ExitCode.DONE:
        code, reason = ExitCode.STOPPED, Reason.STOPPED
    shutdown.process.leave(code, reason)


if __name__ == "__main__":
    main()
