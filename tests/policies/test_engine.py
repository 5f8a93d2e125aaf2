"""The pack under the real engine: each failing example is refused, each passing one is not."""

import json

import pytest

from policies.rules import RULES
from tests.policies.engine import VIOLATION_EXIT, Project, Violation, violations_in
from tests.policies.examples import Example, examples
from tests.policies.pack import PACK

pytestmark = [pytest.mark.engine, pytest.mark.slow]

# One stack shows them all. It is a production stack, so that protection is asked for.
NAMES = {example: f"{example.policy}-{number}" for number, example in enumerate(examples())}
EXAMPLES = [example for example in NAMES if example.case != "a development stack"]


def declared(chosen: list[Example]) -> list[dict]:
    return [
        {
            "name": NAMES[example],
            "type": example.resource.type,
            "props": example.resource.props,
            "protect": example.resource.protect,
        }
        for example in chosen
    ]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("project"))
    project.declare(declared(EXAMPLES))
    project.pulumi("stack", "init", "prod")
    return project


@pytest.fixture(scope="module")
def previewed(project) -> list[Violation]:
    return project.violations("preview")


@pytest.fixture(scope="module")
def analyzed(project) -> list[Violation]:
    """What `pulumi policy analyze` says of an exported state, without stack, program and provider."""
    project.pulumi("up", "--yes", "--skip-preview")
    project.pulumi("stack", "export", "--file", "state.json")
    command = ("policy", "analyze", "--json", "--policy-pack", str(PACK), "--file", "state.json")
    return violations_in(project.pulumi(*command, expect=1))


@pytest.mark.parametrize("source", ["previewed", "analyzed"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_policy_refuses_its_failing_examples_and_lets_the_others_pass(rule, source, request):
    reported = request.getfixturevalue(source)
    for example in (example for example in EXAMPLES if example.policy == rule.name):
        mine = [v for v in reported if (v.policy, v.resource) == (rule.name, NAMES[example])]
        assert len(mine) == len(example.violations), (example.title, mine)
        for violation, expected in zip(mine, example.violations, strict=True):
            assert expected in violation.message
            assert violation.level == "mandatory"


def test_a_violation_stops_an_update_before_anything_is_made(tmp_path):
    project = Project(tmp_path)
    project.declare(declared([next(e for e in EXAMPLES if e.policy == "no-account-keys" and e.violations)]))
    project.pulumi("stack", "init", "dev")
    found = project.violations("up", "--yes", "--skip-preview")
    assert [v.policy for v in found] == ["no-account-keys"]
    state = json.loads(project.pulumi("stack", "export"))
    assert [r["type"] for r in state["deployment"].get("resources", []) if r["type"].startswith("gcp:")] == []


def test_a_policy_disabled_for_one_run_says_nothing(tmp_path):
    project = Project(tmp_path)
    project.declare(declared([next(e for e in EXAMPLES if e.policy == "no-account-keys" and e.violations)]))
    project.pulumi("stack", "init", "dev")
    config = tmp_path / "policies.json"
    config.write_text(json.dumps({"no-account-keys": {"enforcementLevel": "disabled"}}))
    assert project.violations("preview", "--policy-pack-config", str(config), expect=0) == []


def test_the_exit_code_of_a_violation_is_the_one_that_the_page_names():
    assert f"exit code {VIOLATION_EXIT}" in (PACK.parent / "docs" / "policies.md").read_text()
