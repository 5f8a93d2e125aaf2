"""The workflows keep to the rules, and each rule finds the mistake that it is there for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.context import context_files
from localcloud.toolchain import pulumi_cli
from localcloud.toolchain.actionlint import cached_actionlint
from tests.workflows import rules
from tests.workflows.rules import RULES, Rule, Workflow

TREE = Path(__file__).parents[2]
FILES = sorted([*TREE.glob(".github/workflows/*.yml"), *TREE.glob(".github/actions/*/action.yml")])


def workflow(name: str) -> Workflow:
    (path,) = [file for file in FILES if file.stem == name]
    return Workflow(name, path.read_text())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_workflow_keeps_to_the_rule(path: Path, rule: Rule) -> None:
    assert list(rule(Workflow(path.stem, path.read_text()))) == []


def test_there_are_workflows() -> None:
    assert {path.stem for path in FILES} == {"test", "preview", "pull-request-stack", "deploy", "drift", "action"}


MISTAKES = [
    (rules.least_permissions, "preview", "permissions: {}", "permissions: write-all"),
    (rules.least_permissions, "preview", "permissions: {}\n", ""),
    (rules.least_permissions, "preview", "pull-requests: write", "contents: write"),
    (rules.least_permissions, "preview", "      id-token: write\n", ""),
    (rules.least_permissions, "test", "contents: read", "contents: read\n  id-token: write"),
    (rules.pinned_actions, "test", "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1", "actions/checkout@v7"),
    (rules.pinned_actions, "test", "3d3c42e5", "3d3c42e6"),
    (rules.pinned_actions, "test", " # v7.0.1", ""),
    (rules.pinned_actions, "test", "actions/cache@", "somebody/cache@"),
    (rules.no_outsiders, "preview", "pull_request:", "pull_request_target:"),
    (rules.no_token_on_disk, "preview", "persist-credentials: false", "persist-credentials: true"),
    (rules.no_token_on_disk, "preview", "persist-credentials: false", "fetch-depth: 0"),
    (rules.signs_in_by_federation, "preview", "service_account: ${{", "credentials_json: ${{"),
    (rules.signs_in_by_federation, "preview", "actions/checkout@", "actions/cache@"),
    (rules.no_secrets, "preview", "vars.GCP_PREVIEW_ACCOUNT", "secrets.GCP_KEY"),
    (rules.no_secrets, "deploy", "uses: ./.github/workflows/test.yml", "uses: ./x.yml\n    secrets: inherit"),
    (rules.forks_get_no_account, "preview", f"{rules.SAME_REPOSITORY} && ", ""),
    (rules.forks_get_no_account, "preview", f"{rules.SAME_REPOSITORY} && ", f"{rules.SAME_REPOSITORY} || "),
    (rules.forks_get_no_account, "pull-request-stack", f"{rules.SAME_REPOSITORY} &&", "true ||"),
    (rules.no_expression_in_a_script, "pull-request-stack", '"$NUMBER"', '"${{ github.event.pull_request.title }}"'),
    (rules.no_expression_in_a_script, "action", "pip install", "pip install ${{ inputs.x }}"),
    (rules.apart_accounts, "preview", "vars.GCP_PREVIEW_ACCOUNT", "vars.GCP_DEPLOY_ACCOUNT"),
    (rules.apart_accounts, "deploy", "    environment: prod\n", ""),
    (rules.apart_accounts, "deploy", "vars.GCP_DEPLOY_ACCOUNT", "vars.GCP_PREVIEW_ACCOUNT"),
    (rules.apart_accounts, "preview", "command: preview", "command: up"),
    (rules.apart_accounts, "preview", "    environment: prod-preview\n", ""),
    (rules.apart_accounts, "preview", "vars.GCP_PREVIEW_ACCOUNT", "vars.GCP_PROD_PREVIEW_ACCOUNT"),
    (rules.apart_accounts, "preview", "${{ vars.GCP_PREVIEW_ACCOUNT }}", rules.EACH_PREVIEW),
    (rules.apart_accounts, "preview", "environment: prod-preview", "environment: pull-request"),
    (rules.apart_accounts, "drift", " --preview-only", ""),
    (rules.one_engine_a_stack, "preview", "cancel-in-progress: true", "cancel-in-progress: false"),
    (rules.one_engine_a_stack, "preview", "preview-${{ github.event.pull_request.number }}", "preview"),
    (rules.one_engine_a_stack, "deploy", "cancel-in-progress: false", "cancel-in-progress: true"),
    (rules.one_engine_a_stack, "deploy", "group: deploy-prod", "group: deploy-dev"),
    (rules.one_engine_a_stack, "deploy", "group: deploy-dev", "group: deploy-${{ github.run_id }}"),
    (rules.one_engine_a_stack, "pull-request-stack", "cancel-in-progress: false", "cancel-in-progress: true"),
    (
        rules.one_engine_a_stack,
        "pull-request-stack",
        "permissions: {}\n",
        "permissions: {}\n\nconcurrency:\n  group: pull-request-stack-${{ github.event.pull_request.number }}\n"
        "  cancel-in-progress: false\n",
    ),
    (rules.ends_in_time, "drift", "    timeout-minutes: 10\n", ""),
]


@pytest.mark.parametrize(("rule", "name", "right", "wrong"), MISTAKES)
def test_a_rule_finds_its_mistake(rule: Rule, name: str, right: str, wrong: str) -> None:
    text = workflow(name).text
    assert right in text
    assert list(rule(Workflow(name, text.replace(right, wrong))))


def test_every_rule_has_a_mistake_to_find() -> None:
    assert {rule for rule, *_ in MISTAKES} == set(RULES)


def test_actionlint_and_shellcheck_have_nothing_to_say() -> None:
    actionlint = cached_actionlint()
    if not actionlint.exists():
        pytest.skip("not run: no actionlint; `make setup` builds it where there is Go")
    shellcheck = Path(sys.executable).parent / "shellcheck"
    assert shellcheck.exists()
    files = [str(file) for file in FILES if file.parent.name == "workflows"]
    command = [str(actionlint), "-no-color", "-shellcheck", str(shellcheck), "-pyflakes", "", *files]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def versions() -> Iterator[str]:
    for file in FILES:
        yield from re.findall(r"pulumi-version: (.+)", file.read_text())


def test_the_engine_is_the_one_that_everything_was_tried_with() -> None:
    assert set(versions()) == {pulumi_cli.VERSION}
    for file in FILES:
        installs = [
            step for _, step in Workflow("", file.read_text()).steps() if "pulumi/actions" in step.get("uses", "")
        ]
        assert all("pulumi-version" in step["with"] for step in installs)


def test_a_preview_has_the_policies_and_comments_with_its_summary() -> None:
    previews = [
        step["with"] for _, step in workflow("preview").steps() if step.get("with", {}).get("command") == "preview"
    ]
    assert [preview["stack-name"] for preview in previews] == ["dev", "prod"]
    for preview in previews:
        assert preview["policyPacks"] == "policies"
        assert preview["comment-on-pr"] is True
        assert preview["always-include-summary"] is True


def look_for_forgotten(folder: Path, *, stacks: str, pull_request: str) -> subprocess.CompletedProcess[str]:
    """The nightly script; `stacks` and `pull_request` are scripts that stand in for `pulumi` and GitHub's answer."""
    stand_ins = {
        "pulumi": stacks,
        # The last argument is the expression that `gh` would put to its answer.
        "gh": f'for expression; do :; done; {pull_request} | jq --raw-output "$expression"',
    }
    for program, script in stand_ins.items():
        (folder / program).write_text(f"#!/bin/sh\n{script}\n")
        (folder / program).chmod(0o755)
    (step,) = [one for one in workflow("drift").jobs["forgotten"]["steps"] if one.get("name")]
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "PROJECT": "p", "SECRETS_PROVIDER": "gcpkms://key"}
    return subprocess.run(
        ["bash", "-e", "-c", step["run"]], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("pull_request", "wanted"),
    [
        ({"state": "OPEN", "labels": [{"name": "bug"}, {"name": "deploy"}]}, True),
        ({"state": "OPEN", "labels": [{"name": "bug"}]}, False),
        ({"state": "OPEN", "labels": []}, False),
        ({"state": "MERGED", "labels": [{"name": "deploy"}]}, False),
    ],
)
def test_a_stack_is_forgotten_when_its_pull_request_is_not_open_or_lost_its_label(
    tmp_path: Path, pull_request: dict[str, Any], wanted: bool
) -> None:
    listed = json.dumps([{"name": "dev"}, {"name": "pr-7"}, {"name": "pr-x"}])
    done = look_for_forgotten(tmp_path, stacks=f"echo '{listed}'", pull_request=f"echo '{json.dumps(pull_request)}'")
    assert done.returncode == (0 if wanted else 1), done
    assert ("pr-7 is still there" in done.stdout) is not wanted
    assert wanted or "infra.pull_request_stack 7 --project 'p' --secrets-provider 'gcpkms://key'" in done.stdout


def test_where_the_stacks_cannot_be_listed_they_are_not_taken_for_none(tmp_path: Path) -> None:
    assert look_for_forgotten(tmp_path, stacks="exit 3", pull_request="echo '{}'").returncode == 3


LOOK = "Look whether there is such a stack"


def look_for_the_stack(folder: Path, stacks: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """What the look printed and what it noted; `stacks` is a script that stands in for `pulumi`."""
    (folder / "pulumi").write_text(f"#!/bin/sh\n{stacks}\n")
    (folder / "pulumi").chmod(0o755)
    (folder / "noted").write_text("")
    (step,) = [one for one in workflow("pull-request-stack").jobs["down"]["steps"] if one.get("name") == LOOK]
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "STACK": "pr-7", "GITHUB_OUTPUT": str(folder / "noted")}
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done, (folder / "noted").read_text()


@pytest.mark.parametrize(
    ("stacks", "there"),
    [([], "false"), (["dev", "pr-70", "pr-7"], "true"), (["dev", "pr-70", "xpr-7", "pr-7-old"], "false")],
)
def test_a_closed_pull_request_without_a_stack_is_green_and_says_so(
    tmp_path: Path, stacks: list[str], there: str
) -> None:
    done, noted = look_for_the_stack(tmp_path, f"echo '{json.dumps([{'name': name} for name in stacks])}'")
    assert (done.returncode, noted) == (0, f"there={there}\n"), done
    assert ("There is no stack pr-7" in done.stdout) is (there == "false")


@pytest.mark.parametrize("stacks", ["exit 3", "echo nonsense"])
def test_stacks_that_cannot_be_listed_are_not_taken_for_none_when_a_pull_request_is_closed(
    tmp_path: Path, stacks: str
) -> None:
    done, noted = look_for_the_stack(tmp_path, stacks)
    assert done.returncode != 0
    assert noted == ""


def test_after_the_look_every_step_waits_for_a_stack() -> None:
    steps = workflow("pull-request-stack").jobs["down"]["steps"]
    (look,) = [i for i, step in enumerate(steps) if step.get("name") == LOOK]
    assert steps[look]["id"] == "stack"
    assert len(steps[look + 1 :]) == 4
    assert all(step["if"] == "steps.stack.outputs.there == 'true'" for step in steps[look + 1 :])


def test_no_job_opens_the_state_of_prod_but_those_that_deploy_or_preview_it() -> None:
    """dev's account has no key to it; what prod runs is passed on by the job that deployed it."""
    allowed = {("deploy", "prod"), ("preview", "prod"), ("drift", "drift")}
    for file in FILES:
        for job, content in Workflow("", file.read_text()).jobs.items():
            steps = content.get("steps", [])
            texts = [step.get("run", "") + str(step.get("with", {}).get("stack-name", "")) for step in steps]
            names_it = any(re.search(r"--stack prod|promote dev prod|^prod$", text) for text in texts)
            assert not names_it or (file.stem, job) in allowed, (file.stem, job)
    deploy = workflow("deploy").jobs
    assert deploy["prod"]["outputs"] == {"image": "${{ steps.image.outputs.image }}"}
    assert deploy["keep"]["steps"][-1]["env"] == {"IMAGE": "${{ needs.prod.outputs.image }}"}


def test_a_closed_pull_requests_stack_is_unlocked_before_it_is_destroyed() -> None:
    steps = workflow("pull-request-stack").jobs["down"]["steps"]
    unlock = [i for i, step in enumerate(steps) if step.get("run", "").startswith("pulumi cancel")]
    destroy = [i for i, step in enumerate(steps) if step.get("with", {}).get("command") == "destroy"]
    assert len(unlock) == len(destroy) == 1
    assert unlock < destroy


@pytest.mark.parametrize("name", ["deploy", "pull-request-stack"])
def test_nothing_is_deployed_past_the_policies(name: str) -> None:
    ups = [step["with"] for _, step in workflow(name).steps() if step.get("with", {}).get("command") == "up"]
    assert ups
    assert all(step["policyPacks"] == "policies" for step in ups)


def test_main_deploys_dev_after_the_tests_and_prod_after_dev() -> None:
    jobs = workflow("deploy").jobs
    assert (jobs["dev"]["needs"], jobs["prod"]["needs"]) == ("test", "dev")
    assert (jobs["dev"]["environment"], jobs["prod"]["environment"]) == ("dev", "prod")
    assert "github.ref == 'refs/heads/main'" in jobs["dev"]["if"]


@pytest.mark.parametrize(("name", "job"), [("preview", "prod"), ("deploy", "prod")])
def test_prod_takes_the_image_that_dev_runs(name: str, job: str) -> None:
    steps = workflow(name).jobs[job]["steps"]
    promote = [i for i, step in enumerate(steps) if step.get("run") == ".venv/bin/python -m ops promote dev prod"]
    pulumi = [i for i, step in enumerate(steps) if step.get("with", {}).get("command")]
    assert len(promote) == 1
    assert promote < pulumi


def test_a_credentials_file_in_the_tree_reaches_neither_git_nor_the_image(tmp_path: Path) -> None:
    name = "gha-creds-0123456789abcdef.json"
    for place in (name, f"app/{name}"):
        assert subprocess.run(["git", "check-ignore", "--quiet", place], cwd=TREE, check=False).returncode == 0
    for file in ("Dockerfile", ".dockerignore", "app/__main__.py", name, f"app/{name}"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text((TREE / file).read_text() if (TREE / file).exists() else "{}")
    assert context_files(tmp_path) == ["Dockerfile", "app/__main__.py"]
    assert "gha-creds-*.json" in (TREE / ".gcloudignore").read_text().splitlines()


def test_the_labels_and_environments_are_what_the_documents_say() -> None:
    text = (TREE / "docs" / "pipeline.md").read_text()
    for file in FILES:
        for job in Workflow("", file.read_text()).jobs.values():
            if "environment" in job:
                assert f"`{job['environment']}`" in text
    assert "`deploy`" in text


def test_files_are_yaml_that_says_first_why_it_is_there() -> None:
    for file in FILES:
        assert file.read_text().startswith("# "), file
        assert yaml.safe_load(file.read_text())
