"""Hands the rules to the engine: `pulumi preview --policy-pack policies`. All judgement is in rules/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
)
from pulumi_policy.proxy import UnknownValueError
from rules import RULES
from rules.rule import UNKNOWN, NotYetKnownError, Resource, Rule

PACK = "gpujob-policies"


def policy_of(rule: Rule) -> ResourceValidationPolicy:
    """The rule in the engine's terms."""

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if not rule.applies_to(args.resource_type):
            return
        resource = Resource(args.resource_type, args.urn, plain(args.props), args.opts.protect, args.get_config())
        try:
            for message in rule.violations(resource):
                report(message, None)
        except NotYetKnownError:
            # No noise in a preview: the engine asks again in the update, before it creates anything.
            args.not_applicable("a value that it needs is not known before the update")

    schema = PolicyConfigSchema(
        {o.name: {**o.schema, "default": o.default, "description": o.description} for o in rule.options}
    )
    return ResourceValidationPolicy(
        name=rule.name,
        description=rule.description,
        validate=validate,
        enforcement_level=EnforcementLevel(rule.level.value),
        config_schema=schema if rule.options else None,
        severity=Severity(rule.severity.value),
        tags=list(rule.covers),
        remediation_steps=rule.remediation,
    )


def plain(value: Any) -> Any:
    """Properties as plain data. The SDK's proxies raise where a value is unknown; here UNKNOWN takes its place."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        return {name: _element(mapping, name) for name in mapping}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = cast("Sequence[Any]", value)
        return [_element(items, index) for index in range(len(items))]
    return value


def _element(container: Any, key: Any) -> Any:
    try:
        return plain(container[key])
    except UnknownValueError:
        return UNKNOWN


if __name__ == "__main__":
    policies: list[Policy] = [policy_of(rule) for rule in RULES]
    PolicyPack(name=PACK, policies=policies, enforcement_level=EnforcementLevel.MANDATORY)
