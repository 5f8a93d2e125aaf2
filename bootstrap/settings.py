"""What a bootstrap decides, validated before any resource exists; the only reader of its configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from infra.problems import Problem, SettingsError

NAMESPACE = "gpujob-bootstrap"
KEYS = ("repository", "repositoryId", "devProject", "prodProject", "pullRequestProject", "stateBucketName", "poolId")
LABELS = {"app": "gpujob"}
STACKS = {"dev": "dev", "prod": "prod", "pull-request": "pr-*"}
"""GitHub environment -> the stack that its jobs change; pr-* stands for each pull request's."""
OPENERS = {"dev": ("preview", "prod-preview", "prod"), "prod": ("prod-preview",)}
"""Whose key -> who opens what it sealed, besides the account that deploys there. A preview opens its stack; what takes
dev's image to prod reads dev's outputs."""
_PROJECT = r"[a-z][a-z0-9-]{4,28}[a-z0-9]"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A validated bootstrap. Made by `parse`."""

    project: str
    """`gcp:project`: holds the federation, the accounts and the state."""
    region: str
    """`gcp:region`: where state bucket and key are."""
    repository: str
    repository_id: str
    dev_project: str
    prod_project: str
    pull_request_project: str
    state_bucket: str
    pool_id: str

    @property
    def environments(self) -> dict[str, str]:
        """GitHub environment -> the project that its deployments change."""
        return {"dev": self.dev_project, "prod": self.prod_project, "pull-request": self.pull_request_project}

    def pulls_from(self, environment: str) -> tuple[str, ...]:
        """Other projects whose images are deployed from there: prod takes dev's."""
        other = environment == "prod" and self.dev_project != self.prod_project
        return (self.dev_project,) if other else ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What works, and lends more than it seems to: a deploy account can act as any account of its project."""
        found: list[str] = []
        homes = {"dev": self.dev_project, "prod": self.prod_project, "the state of every stack": self.project}
        beside = [what for what, home in homes.items() if home == self.pull_request_project]
        if beside:
            found.append(
                f"Pull requests' stacks are in {self.pull_request_project}, with {' and '.join(beside)}. The code of a "
                "pull request runs there as an account that can act as any account of the project. "
                f"Set {NAMESPACE}:pullRequestProject to a project of its own."
            )
        fix = f"Set {NAMESPACE}:devProject to a project of its own."
        if self.dev_project == self.prod_project:
            found.append(
                f"dev and prod are both in {self.dev_project}. What main holds runs on dev before anybody approves it, "
                f"as an account that can act as prod's. {fix}"
            )
        elif self.dev_project == self.project:
            found.append(
                f"The state of every stack is in dev's project {self.project}, whose deploy account can act as any "
                f"account of the project. {fix}"
            )
        return tuple(found)

    @property
    def projects(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.environments.values())))


def parse(values: Mapping[str, str], *, project: str, region: str) -> Settings:
    """Settings from raw strings by key. Raises SettingsError with every problem found, not only the first."""
    given = {name: values.get(name, "") for name in KEYS}
    settings = Settings(
        project=project,
        region=region,
        repository=given["repository"],
        repository_id=given["repositoryId"],
        dev_project=given["devProject"] or project,
        prod_project=given["prodProject"] or project,
        pull_request_project=given["pullRequestProject"] or given["devProject"] or project,
        state_bucket=given["stateBucketName"] or f"gpujob-state-{project}",
        pool_id=given["poolId"] or "github",
    )
    problems = [
        *(_problem(name, "no such key", "", ", ".join(KEYS)) for name in sorted(set(values) - set(KEYS))),
        *_place(settings),
        *_repository(settings),
        *_names(settings, given),
    ]
    if problems:
        raise SettingsError(problems)
    return settings


def load() -> Settings:
    """Read this stack's configuration. Raises pulumi.RunError, which the engine prints without a traceback."""
    import pulumi
    from pulumi.runtime.config import CONFIG, get_config_env

    prefix = f"{NAMESPACE}:"
    everything = {**get_config_env(), **CONFIG.get()}
    ours = {name.removeprefix(prefix): str(value) for name, value in everything.items() if name.startswith(prefix)}
    gcp = pulumi.Config("gcp")
    try:
        settings = parse(ours, project=gcp.get("project") or "", region=gcp.get("region") or "")
    except SettingsError as error:
        raise pulumi.RunError(str(error)) from None
    for warning in settings.warnings:
        pulumi.log.warn(warning)
    return settings


def _problem(name: str, what: str, value: str, allowed: str) -> Problem:
    fix = f"pulumi config set {NAMESPACE}:{name} {value}" if value else f"pulumi config rm {NAMESPACE}:{name}"
    return Problem(f"{NAMESPACE}:{name}", what, allowed, fix)


def _place(s: Settings) -> list[Problem]:
    problems: list[Problem] = []
    if not re.fullmatch(_PROJECT, s.project):
        what = f"{s.project!r} is not a project id" if s.project else "not set"
        allowed = "the id of a project that has billing: 6 to 30 of a-z, 0-9 and -"
        problems.append(Problem("gcp:project", what, allowed, "pulumi config set gcp:project YOUR-PROJECT-ID"))
    if not re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", s.region):
        what = f"{s.region!r} is not a region" if s.region else "not set"
        problems.append(Problem("gcp:region", what, "a region", "pulumi config set gcp:region europe-west4"))
    return problems


def _repository(s: Settings) -> list[Problem]:
    problems: list[Problem] = []
    if not re.fullmatch(r"[A-Za-z0-9](-?[A-Za-z0-9]){0,38}/[A-Za-z0-9._-]{1,100}", s.repository):
        what = f"{s.repository!r} is not a repository" if s.repository else "not set"
        problems.append(_problem("repository", what, "OWNER/NAME", "OWNER/NAME as GitHub spells it"))
    if not re.fullmatch(r"[1-9][0-9]{0,19}", s.repository_id):
        what = f"{s.repository_id!r} is not a number" if s.repository_id else "not set"
        allowed = "its number (a name can come to belong to somebody else): gh api repos/OWNER/NAME --jq .id"
        problems.append(_problem("repositoryId", what, "NUMBER", allowed))
    return problems


def _names(s: Settings, given: Mapping[str, str]) -> list[Problem]:
    problems = [
        _problem(name, f"{given[name]!r} is not a project id", "YOUR-PROJECT-ID", "6 to 30 of a-z, 0-9 and -")
        for name in ("devProject", "prodProject", "pullRequestProject")
        if given[name] and not re.fullmatch(_PROJECT, given[name])
    ]
    bucket = given["stateBucketName"]
    if bucket and (not re.fullmatch(r"(?!goog)[a-z0-9]([a-z0-9_-]{1,61})[a-z0-9]", bucket) or "google" in bucket):
        allowed = "3 to 63 of a-z, 0-9, _ and -; unique in all of Cloud Storage"
        problems.append(_problem("stateBucketName", f"{bucket!r}", f"gpujob-state-{s.project}", allowed))
    if not re.fullmatch(r"(?!gcp-)[a-z0-9-]{4,32}", s.pool_id):
        problems.append(_problem("poolId", f"{s.pool_id!r}", "github-2", "4 to 32 of a-z, 0-9 and -, not gcp- first"))
    return problems
