"""The pack in its own environment answers the engine's questions as the rules do."""

import json

import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import analyzer_pb2

from policies.rules import RULES
from policies.rules.rule import Resource
from tests.policies.examples import examples
from tests.policies.pack import PACK, asked, running_pack, struct

UNKNOWN_TEXT = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""How the engine writes a text that it does not know yet."""


@pytest.fixture(scope="module")
def pack():
    with running_pack() as stub:
        yield stub


def test_it_announces_every_rule_with_severity_level_and_remedy(pack):
    info = pack.GetAnalyzerInfo(empty_pb2.Empty())
    announced = {policy.name: policy for policy in info.policies}
    assert list(announced) == [rule.name for rule in RULES]
    for rule in RULES:
        policy = announced[rule.name]
        assert analyzer_pb2.PolicySeverity.Name(policy.severity).endswith(rule.severity.value.upper())
        assert analyzer_pb2.EnforcementLevel.Name(policy.enforcementLevel) == rule.level.value.upper()
        assert (policy.description, policy.remediation_steps) == (rule.description, rule.remediation)
        assert tuple(policy.tags) == rule.covers


def test_it_announces_options_with_their_defaults(pack):
    info = pack.GetAnalyzerInfo(empty_pb2.Empty())
    for rule, policy in zip(RULES, info.policies, strict=True):
        defaults = {name: dict(schema)["default"] for name, schema in policy.configSchema.properties.items()}
        assert json.dumps({name: _plain(value) for name, value in defaults.items()}) == json.dumps(
            {option.name: option.default for option in rule.options}
        )


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.title)
def test_it_says_of_an_example_what_the_example_expects(pack, example):
    response = pack.Analyze(asked(example.resource))
    messages = [found.message for found in response.diagnostics if found.policyName == example.policy]
    assert len(messages) == len(example.violations), messages
    for message, expected in zip(messages, example.violations, strict=True):
        assert expected in message


def test_a_value_that_is_not_known_yet_is_no_violation_but_said_to_be_not_judged(pack):
    props = {"template": {"template": {"containers": [{"image": UNKNOWN_TEXT}], "serviceAccount": UNKNOWN_TEXT}}}
    response = pack.Analyze(asked(Resource("gcp:cloudrunv2/job:Job", "urn:pulumi:dev::p::t::n", props)))
    assert {"job-image-by-digest", "job-has-own-account"} <= {entry.policy_name for entry in response.not_applicable}
    assert not {"job-image-by-digest", "job-has-own-account"} & {found.policyName for found in response.diagnostics}


def test_resources_of_other_kinds_are_none_of_its_business(pack):
    topic = Resource("gcp:pubsub/topic:Topic", "urn:pulumi:prod::p::gcp:pubsub/topic:Topic::n", {"name": "n"})
    assert not pack.Analyze(asked(topic)).diagnostics


def test_a_team_sets_an_option_and_a_level():
    bucket = Resource("gcp:storage/bucket:Bucket", "urn:pulumi:dev::p::t::n", {"labels": {"app": "gpujob"}})
    configured = analyzer_pb2.PolicyConfig(
        enforcementLevel=analyzer_pb2.ADVISORY, properties=struct({"labels": ["app", "team"]})
    )
    with running_pack() as pack:
        pack.Configure(analyzer_pb2.ConfigureAnalyzerRequest(policyConfig={"required-labels": configured}))
        (found,) = [d for d in pack.Analyze(asked(bucket)).diagnostics if d.policyName == "required-labels"]
    assert "labels lacks team." in found.message
    assert found.enforcementLevel == analyzer_pb2.ADVISORY


def test_its_requirements_are_pinned_with_hashes_and_name_no_index():
    text = (PACK.parent / "requirements" / "policies.txt").read_text()
    pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert pins
    assert all("==" in pin for pin in pins)
    assert text.count("--hash=sha256:") >= len(pins)
    assert "://" not in text


def _plain(value):
    """Protobuf numbers are floats and its lists are objects of their own."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return value if isinstance(value, str) else list(value)
