"""Starts one execution, and never two by mistake: each one is billed, and two would fight over one checkpoint line."""

from collections.abc import Callable, Sequence

from ops.cloud import Cloud
from ops.errors import RefusedError, UnreachableError

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Between tries: Cloud Run now and then answers :run with a 503 that passes."""


def start(cloud: Cloud, args: Sequence[str], say: Callable[[str], None], *, alongside: bool = False) -> str:
    """Starts an execution; returns its short name. Raises RefusedError while another runs, unless `alongside`."""
    before = cloud.runs.executions()
    running = [execution.name for execution in before if not execution.state.ended]
    if running and not alongside:
        raise RefusedError(
            f"Execution {running[0]} of job {cloud.outputs.job_name} has not ended. A second one would take over its "
            "checkpoint line and both would be billed, so none was started. Wait for it (`gpujob status`), end it "
            f"(`gpujob cancel {running[0]}`), or say --alongside if the two share no line."
        )
    known = {execution.name for execution in before}
    for pause_s in (*PAUSES_S, None):
        try:
            return cloud.runs.start(args)
        except UnreachableError as error:
            # The request may have arrived all the same: look before asking twice.
            appeared = [execution.name for execution in cloud.runs.executions() if execution.name not in known]
            if appeared:
                say(f"{error} Execution {appeared[0]} did start meanwhile, so it is not asked for again.")
                return appeared[0]
            if pause_s is None:
                raise
            say(f"{error} No execution has appeared; asking again in {pause_s:.0f} s.")
            cloud.clock.sleep(pause_s)
    raise AssertionError("the last try returns or raises")
