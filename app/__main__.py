"""`python -m app [workload] [flags]`: signals first, then the contract, then torch, then the workload."""

from app import shutdown

shutdown.process.install()  # before any other import: PID 1 without a handler never hears SIGTERM

import os  # noqa: E402
import sys  # noqa: E402
from typing import NoReturn  # noqa: E402

from app import logs, startup  # noqa: E402
from app.command import parse  # noqa: E402
from app.contract import ExitCode, Reason, Task, TaskError  # noqa: E402


def work(arguments: list[str]) -> None:
    """One task attempt from start to end. Raises TaskError for every end that has a name."""
    flags = parse(arguments)
    task = Task.from_environment(os.environ)
    store = startup.open_store(task)
    done = startup.finished(task, store, flags.steps)
    if done is not None and all(done.get("identity", {}).get(key) == value for key, value in flags.identity.items()):
        logs.info(
            f"Finished already, at step {done['step']} ({done.get('finished_at')}): nothing to do.", step=done["step"]
        )
        return
    start = startup.begin(task, store)
    shutdown.process.before_leaving(lambda code, reason: start.ledger.end(code, reason, start.ledger.record.last_step))
    if task.required_gpu:
        from app import accelerator

        accelerator.require(task.required_gpu)
    flags.workload.run(flags, start)


def main() -> NoReturn:
    code, reason = ExitCode.DONE, Reason.FINISHED
    try:
        work(sys.argv[1:])
    except TaskError as end:
        (logs.warning if end.exit_code == ExitCode.HANDED_OFF else logs.error)(str(end))
        code, reason = end.exit_code, end.reason
    except BaseException as error:
        logs.failure("The program failed; the last durable checkpoint is safe and a retry resumes from it.", error)
        code, reason = ExitCode.FAILED, Reason.FAILED
    if shutdown.process.noticed.is_set() and code != ExitCode.DONE:
        code, reason = ExitCode.STOPPED, Reason.STOPPED
    shutdown.process.leave(code, reason)


if __name__ == "__main__":
    main()
