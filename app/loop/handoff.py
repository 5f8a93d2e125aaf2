"""Before the platform's timeout ends an attempt without a save, it saves and hands off to the next one."""

from __future__ import annotations

SLACK_S = 10.0
"""For leaving, and for a machine that is slower just then."""
STEPS = 2
"""The step that would begin now, and one more in case it is a slow one."""
SAVES = 3
"""The periodic save under way, the last one, and one more in case storage is slow."""
AT_MOST = 0.5
"""Share of the timeout that is given up for this: with steps or saves that slow, working still beats waiting."""


def is_due(*, elapsed_s: float, timeout_s: float | None, step_s: float, save_s: float) -> bool:
    """Whether another step and a save might not fit any more.

    elapsed_s: since the attempt began; timeout_s: allowed to it, None without limit; step_s: the usual step;
    save_s: the last save.
    """
    if timeout_s is None:
        return False
    needed_s = SLACK_S + STEPS * step_s + SAVES * save_s
    return elapsed_s > timeout_s - min(needed_s, AT_MOST * timeout_s)
