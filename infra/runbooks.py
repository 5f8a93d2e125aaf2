"""What to do when an alert comes: one runbook each, sent with the alert and printed in docs/runbooks.md.

python -m infra.runbooks          # write the page; a test fails where it differs from this file
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from infra import alerts

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Runbook:
    """For a person at night: what it means, what it costs to wait, where to look, what to do."""

    means: str
    urgency: str
    look: tuple[str, ...]
    act: tuple[str, ...]

    def text(self) -> str:
        """Markdown without a heading."""
        look = "\n".join(f"{number}. {each}" for number, each in enumerate(self.look, 1))
        act = "\n".join(f"- {each}" for each in self.act)
        means = f"**What it means.** {self.means}\n\n**What waiting costs.** {self.urgency}"
        return f"{means}\n\n**Look**\n\n{look}\n\n**Do**\n\n{act}\n"


RUNBOOKS: Mapping[str, Runbook] = MappingProxyType(
    {
        alerts.NO_PROGRESS: Runbook(
            means=(
                "Tasks are running and billed, and in all that time no checkpoint became durable. The job hangs, "
                "starts again and again, has not reached its first save, or cannot write to the bucket. (A run that "
                "saves more rarely than `noProgressMinutes` on purpose needs a higher value.)"
            ),
            urgency="Every hour is billed in full. What was durable before is safe and stays so.",
            look=(
                "`gpujob status`: which attempt, at which step, and the last durable step.",
                "`gpujob logs`: `Saving step N failed` (the bucket), `Resuming from checkpointed step N` several times "
                "(a crash loop), or no step line at all (a slow start, or a hang: the watchdog ends it by itself).",
                "The dashboard: are there steps, and do saves end?",
            ),
            act=(
                "The bucket refuses writes: see the message; the usual reason is a missing grant. `pulumi up "
                "--refresh` puts it back.",
                "The program hangs or loops: `gpujob cancel`, mend it, `gpujob run`: it resumes from the last durable "
                "step.",
                "It is only slow: raise `noProgressMinutes`, or save more often.",
            ),
        ),
        alerts.AT_RISK: Runbook(
            means=(
                "A task makes steps, but none of them became durable for `atRiskMinutes`: a machine lost now would "
                "take them along. Saves fail, take too long, or are set too far apart."
            ),
            urgency="Nothing is lost yet. An interruption now costs the work since the last durable step, once more.",
            look=(
                "`gpujob logs`: `Saving step N failed (...)` names the reason; training goes on and the save is tried "
                "again.",
                "The dashboard's save duration: a save that takes as long as the interval never catches up.",
            ),
            act=(
                "Failing saves: mend what the message names (grant, quota, soft-deleted or locked bucket).",
                "Slow saves: more memory or vCPU for the mount, or a larger interval and a higher `atRiskMinutes`.",
                "Ask for a stop that saves: `gpujob cancel` sends SIGTERM, upon which the worker saves what it can.",
            ),
        ),
        alerts.RETRIES: Runbook(
            means=(
                "One of the last attempts that `maxRetries` allows has begun. Every maintenance of the host, every "
                "timeout and every failure uses one up; after the last the execution fails, and its checkpoints stay."
            ),
            urgency="None while it runs. If it is interrupted once more the execution may end as failed.",
            look=(
                "`gpujob status`: how each attempt ended. `preempted` and `handed-off` are ordinary; `failed` is not.",
                "The dashboard's interruptions: maintenance, timeouts, or failures of the program?",
            ),
            act=(
                "Ordinary interruptions: nothing now. When it fails, `gpujob run` goes on from the last durable step. "
                "For the next execution raise `maxRetries`.",
                "Failures of the program: read the error of the earlier attempts before the last one repeats it.",
            ),
        ),
        alerts.FAILED: Runbook(
            means="An execution ended as failed: a task used up its retries, or was ended for good.",
            urgency="No cost any more, and no progress. The last durable checkpoint is safe.",
            look=(
                "`gpujob status`: the exit code of the last attempt. 143 and 137: interrupted once too often. 75: "
                "handed off at the timeout, or the bucket was not to be reached. 70: the program failed or hung. 78: "
                "trying again cannot help. (docs/exit-codes.md)",
                "`gpujob logs`: the last ERROR line says what was kept safe and what to do.",
            ),
            act=(
                "143, 137, 75: `gpujob run`; it resumes. If that happens often, raise `maxRetries`.",
                "70: mend the program, `pulumi up`, `gpujob run`.",
                "78: mend what the message names (configuration, GPU, another model's checkpoint), then `gpujob run`.",
            ),
        ),
        alerts.BREAKER: Runbook(
            means=(
                "Several attempts in a row failed without a new durable step, so the worker now ends each further "
                "attempt within seconds: the program fails every time at the same place."
            ),
            urgency="Hardly any cost any more: that is what the breaker is for. No progress until somebody acts.",
            look=(
                "`gpujob logs`: the verdict names the attempt whose error to read; look for its traceback.",
                "What changed last: image, data, arguments? `pulumi stack history` and the job's revisions.",
            ),
            act=(
                "Mend the program or the data, `pulumi up`, then `gpujob run`: a new execution starts without the "
                "verdict and resumes from the last durable step.",
                "A bad batch of data: skip it or repair it; the step is the one after the last durable one.",
            ),
        ),
    }
)

_HEAD = """\
# Runbooks

What to do when an alert comes. Written by `python -m infra.runbooks` from `infra/runbooks.py`; each text is sent with
its alert. Thresholds are settings (docs/configuration.md); nothing here was tried on a live incident.
"""


def documentation(name: str, job: str, region: str, project: str) -> str:
    """The text that goes with an alert."""
    return f"Job `{job}` in `{region}`, project `{project}`.\n\n{RUNBOOKS[name].text()}"


def page() -> str:
    """docs/runbooks.md."""
    return _HEAD + "".join(f"\n## {name}\n\n{runbook.text()}" for name, runbook in RUNBOOKS.items())


def main() -> None:
    """Write the page."""
    (ROOT / "docs" / "runbooks.md").write_text(page())
    print("wrote docs/runbooks.md")


if __name__ == "__main__":
    main()
