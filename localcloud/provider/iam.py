"""One member of one role in an IAM policy: read, modify, write, with the etag that keeps others' changes."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import ClassVar

from localcloud.provider.errors import ApiError, Refused
from localcloud.provider.fields import Field, one, text
from localcloud.provider.resource import GONE, Locks, ResourceType
from localcloud.provider.rest import Rest
from localcloud.provider.settings import Settings
from localcloud.provider.values import UNKNOWN, Values

_CONFLICT = 409
_ATTEMPTS = 8
_LOCKS = Locks()
_PREFIXES = ("user:", "serviceAccount:", "group:", "domain:", "principal:", "principalSet:", "deleted:")
_EVERYBODY = ("allUsers", "allAuthenticatedUsers")


def member_inputs() -> tuple[Field, ...]:
    condition = one(
        "condition",
        text("title", required=True),
        text("expression", required=True),
        text("description"),
        replaces=True,
        local=True,
    )
    return (
        text("role", required=True, replaces=True, local=True),
        text("member", required=True, replaces=True, local=True),
        condition,
    )


class IamMember(ResourceType):
    """Base of the *IAMMember types. Nothing of it can be updated: another member is another object."""

    target_inputs: ClassVar[tuple[Field, ...]]
    """Which object's policy it is."""
    import_form: ClassVar[str]
    outputs: ClassVar[dict[str, str]] = {"etag": "etag"}
    identity = ("role", "member", "condition")

    @abstractmethod
    def target_of(self, inputs: Values) -> str:
        """Name of the object that has the policy."""

    @abstractmethod
    def target_named(self, name: str) -> Values:
        """The target's inputs from its name in an import id."""

    @abstractmethod
    def read_policy(self, rest: Rest, target: str) -> Values: ...

    @abstractmethod
    def write_policy(self, rest: Rest, target: str, policy: Values) -> None: ...

    def id_of(self, inputs: Values) -> str:
        condition = inputs.get("condition")
        title = f"/{condition['title']}" if condition else ""
        return f"{self.target_of(inputs)}/{inputs['role']}/{inputs['member']}{title}"

    def named_by(self, given: str) -> Values:
        parts = given.split(" ")
        if len(parts) != 3:
            raise Refused(f"{given!r} is no {self.noun}; give '{self.import_form}', in quotes, with single spaces")
        return {**self.target_named(parts[0]), "role": parts[1], "member": parts[2]}

    def problems(self, inputs: Values) -> list[tuple[str, str]]:
        member = str(inputs.get("member", ""))
        if member in ("", UNKNOWN, *_EVERYBODY) or member.startswith(_PREFIXES):
            return []
        return [("member", f"must begin with one of {', '.join(_PREFIXES)}, not {member!r}")]

    def values(self, settings: Settings, answer: Values, inputs: Values) -> Values:
        found = super().values(settings, answer, inputs)
        return {**found, **{field.name: inputs[field.name] for field in self.inputs if inputs.get(field.name)}}

    def create(self, rest: Rest, inputs: Values, timeout_s: float) -> None:  # noqa: ARG002
        self._modify(rest, inputs, present=True)

    def fetch(self, rest: Rest, inputs: Values) -> Values | None:
        try:
            policy = self.read_policy(rest, self.target_of(inputs))
        except ApiError as error:
            if error.code == GONE:
                return None
            raise
        return policy if inputs["member"] in _binding(policy, inputs).get("members", []) else None

    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        raise Refused(f"{self.noun}: nothing of it can be updated")

    def delete(self, rest: Rest, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        try:
            self._modify(rest, state, present=False)
        except ApiError as error:
            if error.code != GONE:  # the object went, and its policy with it
                raise

    def _modify(self, rest: Rest, inputs: Values, *, present: bool) -> None:
        target = self.target_of(inputs)
        for attempt in range(_ATTEMPTS):
            with _LOCKS.of(f"{type(self).__module__} {target}"):
                policy = self.read_policy(rest, target)
                changed = _changed(policy, inputs, present=present)
                if changed is None:
                    return
                try:
                    self.write_policy(rest, target, changed)
                except ApiError as error:
                    # Somebody else wrote between our read and our write: read again.
                    if error.code != _CONFLICT or attempt == _ATTEMPTS - 1:
                        raise
                else:
                    return
            rest.cancelled.wait(0.1 * (attempt + 1))


class NamedIamMember(IamMember):
    """Where the object has a full name made of the target's inputs, which a program may give in place of the last."""

    endpoint: ClassVar[str]
    full_name: ClassVar[str]
    """With the inputs' names in braces; the last of them is the object's own."""
    target_noun: ClassVar[str]

    def target_of(self, inputs: Values) -> str:
        name = str(inputs[self.target_inputs[-1].name])
        return name if self._pattern().fullmatch(name) else self.full_name.format_map(inputs)

    def target_named(self, name: str) -> Values:
        match = self._pattern().fullmatch(name)
        if not match:
            raise Refused(f"{name!r} is no {self.target_noun}; give '{self.import_form}'")
        return match.groupdict()

    def read_policy(self, rest: Rest, target: str) -> Values:
        return rest.call("GET", f"{rest.settings.endpoint(self.endpoint)}{target}:getIamPolicy")

    def write_policy(self, rest: Rest, target: str, policy: Values) -> None:
        rest.call("POST", f"{rest.settings.endpoint(self.endpoint)}{target}:setIamPolicy", body={"policy": policy})

    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", self.full_name))


def _binding(policy: Values, inputs: Values) -> Values:
    """The binding of the role under the same condition, {} where there is none."""
    for binding in policy.get("bindings", []):
        if binding.get("role") == inputs["role"] and _condition(binding) == _condition(inputs):
            return binding
    return {}


def _condition(holder: Values) -> Values:
    return {key: value for key, value in (holder.get("condition") or {}).items() if value}


def _changed(policy: Values, inputs: Values, *, present: bool) -> Values | None:
    """The policy with or without the member, None where it is so already; sorted as Google's provider sends it."""
    mine = _binding(policy, inputs)
    members = set(mine.get("members", []))
    if (inputs["member"] in members) == present:
        return None
    members ^= {inputs["member"]}
    bindings = [binding for binding in policy.get("bindings", []) if binding is not mine and binding.get("members")]
    if members:
        fresh: Values = {"members": sorted(members), "role": inputs["role"]}
        if _condition(inputs):
            fresh["condition"] = _condition(inputs)
        bindings.append(fresh)
    changed: Values = {"version": 3}
    if bindings:
        changed["bindings"] = sorted(bindings, key=lambda binding: (binding["role"], str(binding.get("condition", ""))))
    for kept in ("etag", "auditConfigs"):
        if policy.get(kept):
            changed[kept] = policy[kept]
    return changed
