"""Every policy against its examples, without the engine."""

import pytest

from policies.rules import RULES
from policies.rules.rule import UNKNOWN, NotYetKnownError, Option, Resource, Rule
from tests.policies.examples import Example, examples

BY_NAME = {rule.name: rule for rule in RULES}
EXAMPLES = examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_a_policy_says_of_its_example_what_the_example_expects(example: Example):
    messages = list(BY_NAME[example.policy].violations(example.resource))
    assert len(messages) == len(example.violations), messages
    for message, expected in zip(messages, example.violations, strict=True):
        assert expected in message


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_policy_has_a_passing_and_a_failing_example(rule: Rule):
    outcomes = {bool(example.violations) for example in EXAMPLES if example.policy == rule.name}
    assert outcomes == {True, False}


def test_every_example_belongs_to_a_policy():
    assert {example.policy for example in EXAMPLES} == set(BY_NAME)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_failing_example_of_a_policy_is_of_a_type_that_it_looks_at(rule: Rule):
    failing = [example for example in EXAMPLES if example.policy == rule.name and example.violations]
    assert all(rule.applies_to(example.resource.type) for example in failing)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_violation_says_what_to_do(rule: Rule):
    failing = [example for example in EXAMPLES if example.policy == rule.name and example.violations]
    for example in failing:
        assert all(message.endswith(rule.remediation) for message in rule.violations(example.resource))


def test_names_are_unique():
    assert len(BY_NAME) == len(RULES)


class TestWhatIsNotKnownInAPreview:
    def judged(self, name: str, token: str, props: dict[str, object]) -> list[str]:
        return list(BY_NAME[name].violations(Resource(token, "urn:pulumi:dev::gpujob::x::y", props)))

    def test_an_image_still_to_be_built_is_left_to_the_update(self):
        props = {"template": {"template": {"containers": [{"image": UNKNOWN}]}}}
        with pytest.raises(NotYetKnownError):
            self.judged("job-image-by-digest", "gcp:cloudrunv2/job:Job", props)

    def test_a_whole_branch_still_unknown_is_left_to_the_update(self):
        with pytest.raises(NotYetKnownError):
            self.judged("job-has-own-account", "gcp:cloudrunv2/job:Job", {"template": UNKNOWN})

    def test_an_unknown_member_does_not_hide_a_public_one(self):
        props = {"role": "roles/storage.objectViewer", "members": [UNKNOWN, "allUsers"]}
        grant = Resource("gcp:storage/bucketIAMBinding:BucketIAMBinding", "urn:pulumi:dev::gpujob::x::y", props)
        found = BY_NAME["nothing-public"].violations(grant)
        assert "allUsers" in next(found)
        with pytest.raises(NotYetKnownError):
            next(found)

    @pytest.mark.parametrize(
        ("policy", "token", "props"),
        [
            ("no-account-keys", "gcp:serviceaccount/key:Key", {"serviceAccountId": UNKNOWN}),
            ("no-basic-roles", "gcp:projects/iAMMember:IAMMember", {"role": "roles/owner", "member": UNKNOWN}),
            (
                "no-authoritative-project-grants",
                "gcp:projects/iAMBinding:IAMBinding",
                {"project": UNKNOWN, "role": "roles/run.viewer", "members": [UNKNOWN]},
            ),
        ],
    )
    def test_what_is_wrong_whatever_the_value_is_refused_in_the_preview_already(self, policy, token, props):
        assert self.judged(policy, token, props)


class TestOptions:
    def options(self) -> list[tuple[Rule, Option]]:
        return [(rule, option) for rule in RULES for option in rule.options]

    def test_a_team_may_ask_for_more_labels(self):
        bucket = Resource(
            "gcp:storage/bucket:Bucket",
            "urn:pulumi:dev::gpujob::x::y",
            {"labels": {"app": "gpujob"}},
            options={"labels": ["app", "team"]},
        )
        assert "labels lacks team." in next(BY_NAME["required-labels"].violations(bucket))

    def test_a_team_may_name_its_production_stacks(self):
        bucket = Resource("gcp:storage/bucket:Bucket", "urn:pulumi:live-eu::gpujob::x::y", {})
        assert not list(BY_NAME["production-is-protected"].violations(bucket))
        named = Resource(bucket.type, bucket.urn, bucket.props, options={"stacks": ["live-*"]})
        assert list(BY_NAME["production-is-protected"].violations(named))

    def test_a_team_may_allow_longer_attempts(self):
        task = {"timeout": "604800s", "nodeSelector": {"accelerator": "nvidia-l4"}}
        job = Resource(
            "gcp:cloudrunv2/job:Job",
            "urn:pulumi:dev::gpujob::x::y",
            {"template": {"template": task}},
            options={"gpuHours": 168},
        )
        assert not list(BY_NAME["job-timeout-is-set"].violations(job))

    def test_every_option_has_a_meaning_and_a_default_of_its_type(self):
        kinds = {"array": list, "number": int | float}
        for _, option in self.options():
            assert option.description
            assert isinstance(option.default, kinds[option.schema["type"]])
