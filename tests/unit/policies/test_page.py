"""docs/policies.md says what the rules say."""

import json
import re

from policies import reference
from policies.rules import RULES


def test_the_tables_are_those_of_the_rules():
    page = reference.PAGE.read_text()
    assert reference.written(page) == page, "run `python -m policies.reference`"


def test_every_policy_stands_in_both_tables():
    page = reference.PAGE.read_text()
    assert all(page.count(f"| `{rule.name}` |") >= 2 for rule in RULES)


def test_no_policy_is_advisory_while_the_page_calls_all_mandatory():
    assert {rule.level.value for rule in RULES} == {"mandatory"}


def test_the_example_of_options_names_policies_and_options_that_exist():
    block = re.search(r"\n    (\{.*?\}\})\n\n", reference.PAGE.read_text(), re.DOTALL)
    assert block
    options = {rule.name: {option.name for option in rule.options} for rule in RULES}
    for policy, values in json.loads(block[1]).items():
        assert set(values) - {"enforcementLevel"} <= options[policy]


def test_catalogue_numbers_are_spelt_as_their_catalogues_do():
    spelling = r"CIS \d\.\d+|Checkov CKV_GCP_\d+|Trivy AVD-GCP-\d{4}"
    assert all(re.fullmatch(spelling, number) for rule in RULES for number in rule.covers)
