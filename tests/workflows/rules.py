"""What every workflow in .github/ keeps to, as functions from a workflow to what is wrong with it.

Against: a token that may do more than its job; an action that somebody moved to other code; a fork's pull request that
gets an account; text of a pull request that becomes a command; two engines on one stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

PINS = {
    "actions/checkout": ("3d3c42e5aac5ba805825da76410c181273ba90b1", "v7.0.1"),
    "actions/setup-python": ("a309ff8b426b58ec0e2a45f0f869d46889d02405", "v6.2.0"),
    "actions/setup-go": ("b7ad1dad31e06c5925ef5d2fc7ad053ef454303e", "v7.0.0"),
    "actions/cache": ("55cc8345863c7cc4c66a329aec7e433d2d1c52a9", "v6.1.0"),
    "google-github-actions/auth": ("7c6bc770dae815cd3e89ee6cdf493a5fab2cc093", "v3.0.0"),
    "pulumi/actions": ("8e5e406f4007fca908480587cb9893c07090f58d", "v7.0.0"),
}
"""The one commit of each action that is used, and the release that it is."""
MAY_WRITE = {"id-token", "pull-requests"}
OUTSIDERS = ("pull_request_target", "workflow_run", "issue_comment", "issues", "discussion", "discussion_comment")
"""Events that run with this repository's rights on what anybody may send."""
SAME_REPOSITORY = "github.event.pull_request.head.repo.full_name == github.repository"
CHANGING = {"up", "update", "destroy"}
PREVIEW, PROD_PREVIEW, DEPLOY = (
    f"${{{{ vars.GCP_{name}_ACCOUNT }}}}" for name in ("PREVIEW", "PROD_PREVIEW", "DEPLOY")
)
EACH_PREVIEW = "${{ matrix.stack == 'prod' && vars.GCP_PROD_PREVIEW_ACCOUNT || vars.GCP_PREVIEW_ACCOUNT }}"
"""Of a job for each lasting stack, on main."""


@dataclass(frozen=True)
class Workflow:
    """One workflow or composite action."""

    name: str
    text: str

    @property
    def content(self) -> dict[Any, Any]:
        return yaml.safe_load(self.text)

    @property
    def events(self) -> dict[str, Any]:
        """Event -> its settings. YAML 1.1 reads the key `on` as true."""
        on = self.content.get("on", self.content.get(True, {}))
        return {event: {} for event in on} if isinstance(on, list) else {on: {}} if isinstance(on, str) else on

    @property
    def jobs(self) -> dict[str, dict[str, Any]]:
        return self.content.get("jobs", {})

    def steps(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(job, step), those of a composite action among them."""
        for job, content in self.jobs.items():
            yield from ((job, step) for step in content.get("steps", []))
        yield from (("", step) for step in self.content.get("runs", {}).get("steps", []))


Rule = Callable[[Workflow], Iterator[str]]


def uses(job: dict[str, Any], action: str) -> list[dict[str, Any]]:
    return [step for step in job.get("steps", []) if step.get("uses", "").partition("@")[0] == action]


def permissions_of(workflow: Workflow, job: dict[str, Any]) -> Any:
    return job.get("permissions", workflow.content.get("permissions"))


def least_permissions(workflow: Workflow) -> Iterator[str]:
    """Said at the top, read-only there; a job's own writes are of the few kinds that are needed."""
    if not workflow.jobs:
        return
    top = workflow.content.get("permissions")
    if top not in ({}, {"contents": "read"}):
        yield f"permissions at the top are {top!r}, neither none nor contents: read"
    for name, job in workflow.jobs.items():
        granted = permissions_of(workflow, job)
        if not isinstance(granted, dict):
            yield f"{name}: permissions are {granted!r}"
            continue
        for scope, level in granted.items():
            if level == "write" and scope not in MAY_WRITE:
                yield f"{name}: may write {scope}"
        asks = bool(uses(job, "google-github-actions/auth"))
        if (granted.get("id-token") == "write") != asks:
            yield f"{name}: an identity token goes with signing in to Google Cloud, and with nothing else"


def pinned_actions(workflow: Workflow) -> Iterator[str]:
    """By the commit that PINS names, with its release behind it."""
    for line in re.findall(r"^\s*(?:- )?uses:\s*(.+)$", workflow.text, re.MULTILINE):
        used, _, comment = (part.strip() for part in line.partition("#"))
        if used.startswith("./"):
            continue
        action, _, commit = used.partition("@")
        if PINS.get(action) != (commit, comment):
            yield f"{line}: expected {action}@{' # '.join(PINS.get(action, ('(not in PINS)',)))}"


def no_outsiders(workflow: Workflow) -> Iterator[str]:
    yield from (f"runs on {event}" for event in workflow.events if event in OUTSIDERS)


def no_token_on_disk(workflow: Workflow) -> Iterator[str]:
    for job, step in workflow.steps():
        if (
            step.get("uses", "").startswith("actions/checkout@")
            and step.get("with", {}).get("persist-credentials") is not False
        ):
            yield f"{job}: checkout leaves its token in .git"


def signs_in_by_federation(workflow: Workflow) -> Iterator[str]:
    """After the checkout, which would delete the credentials file; with no key."""
    for name, job in workflow.jobs.items():
        steps = [step.get("uses", "").partition("@")[0] for step in job.get("steps", [])]
        for step in uses(job, "google-github-actions/auth"):
            given = step.get("with", {})
            if set(given) != {"workload_identity_provider", "service_account"}:
                yield f"{name}: signs in with {sorted(given)}"
            if "actions/checkout" not in steps[: job["steps"].index(step)]:
                yield f"{name}: signs in before the checkout"


def no_secrets(workflow: Workflow) -> Iterator[str]:
    yield from (f"uses {found}" for found in re.findall(r"secrets\.\w+|secrets: inherit", workflow.text))


def forks_get_no_account(workflow: Workflow) -> Iterator[str]:
    if "pull_request" not in workflow.events:
        return
    for name, job in workflow.jobs.items():
        condition = " ".join(str(job.get("if", "")).split())
        if uses(job, "google-github-actions/auth") and not condition.startswith(f"{SAME_REPOSITORY} &&"):
            yield f"{name}: runs for pull requests of forks too"


def no_expression_in_a_script(workflow: Workflow) -> Iterator[str]:
    """What GitHub puts into a script's text is run by the shell, whoever wrote it; by way of `env` it stays a value."""
    for job, step in workflow.steps():
        if "${{" in step.get("run", ""):
            yield f"{job}: an expression within run"


def apart_accounts(workflow: Workflow) -> Iterator[str]:
    """Who only looks has an account that only looks; who changes something does so in an environment.

    What a pull request runs looks at prod in an environment too, in which somebody has to let it.
    """
    for name, job in workflow.jobs.items():
        accounts = {step["with"].get("service_account") for step in uses(job, "google-github-actions/auth")}
        changes = changes_a_stack(job)
        environment = job.get("environment")
        if environment:
            expected = {PROD_PREVIEW if environment == "prod-preview" else DEPLOY}
        else:
            expected = {PREVIEW} if "pull_request" in workflow.events else {PREVIEW, EACH_PREVIEW}
        if accounts - expected:
            yield f"{name}: signs in as {accounts}, in the environment {environment}"
        if changes and environment in (None, "prod-preview"):
            yield f"{name}: changes a stack outside of an environment"


def changes_a_stack(job: dict[str, Any]) -> bool:
    commands = {step.get("with", {}).get("command") for step in uses(job, "pulumi/actions")}
    scripts = " ".join(step.get("run", "") for step in job.get("steps", []))
    looked_for = re.findall(r"pulumi (up|destroy|refresh|import|cancel)\b(.*)", scripts)
    by_hand = any("--preview-only" not in rest and not line_is_said(scripts, command) for command, rest in looked_for)
    return bool(commands & CHANGING) or by_hand


def line_is_said(scripts: str, command: str) -> bool:
    """Whether each `pulumi COMMAND` stands in what a script prints."""
    return all("echo" in line for line in scripts.splitlines() if f"pulumi {command}" in line)


def one_engine_a_stack(workflow: Workflow) -> Iterator[str]:
    """A preview gives way to the next of its pull request; a deployment is never cut off."""
    whole = workflow.content.get("concurrency", {})
    for name, job in workflow.jobs.items():
        own = {**whole, **job.get("concurrency", {})}
        group, cancels = str(own.get("group", "")), own.get("cancel-in-progress")
        if changes_a_stack(job):
            stacks = {str(step["with"]["stack-name"]) for step in uses(job, "pulumi/actions") if "with" in step
                      and "stack-name" in step["with"]}  # fmt: skip
            of_pull_request = "github.event.pull_request.number" in group
            if whole:
                yield f"{name}: waits as a whole run, which one whose jobs are all skipped would push out"
            if cancels is not False:
                yield f"{name}: a deployment could be cut off"
            if not of_pull_request and stacks != {group.removeprefix("deploy-")}:
                yield f"{name}: stacks {stacks}, group {group!r}"
        elif "pull_request" in workflow.events and uses(job, "pulumi/actions"):
            alone = "github.event.pull_request.number" in group and cancels is True
            if not alone:
                yield f"{name}: previews of one pull request run beside each other"


def ends_in_time(workflow: Workflow) -> Iterator[str]:
    for name, job in workflow.jobs.items():
        if "uses" not in job and "timeout-minutes" not in job:
            yield f"{name}: may run for six hours"


RULES: tuple[Rule, ...] = (
    least_permissions,
    pinned_actions,
    no_outsiders,
    no_token_on_disk,
    signs_in_by_federation,
    no_secrets,
    forks_get_no_account,
    no_expression_in_a_script,
    apart_accounts,
    one_engine_a_stack,
    ends_in_time,
)
