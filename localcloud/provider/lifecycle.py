"""What happens to one resource: checked, compared, previewed, made, read, changed, removed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from localcloud.provider.checking import Failure, check
from localcloud.provider.diffing import Change, Difference, differences
from localcloud.provider.drift import inputs_imported, inputs_seen
from localcloud.provider.errors import ApiError, ProviderError, Refused, Unfinished
from localcloud.provider.labels import own_labels
from localcloud.provider.resource import PROJECT, ResourceType
from localcloud.provider.rest import Rest
from localcloud.provider.settings import Settings
from localcloud.provider.values import UNKNOWN, Values, has_unknown

_EXISTS = 409
_SUFFIX_CHARACTERS = 7
T = TypeVar("T")


@dataclass(frozen=True)
class Subject:
    """The resource that a call is about."""

    type: ResourceType
    name: str
    """Its name in the program."""
    nested: bool
    """Whether it belongs to a component."""
    settings: Settings


@dataclass(frozen=True)
class Found:
    id: str
    inputs: Values
    outputs: Values


class Partial(ProviderError):  # noqa: N818 - reads as what it is
    """The object exists, but the call did not come to its end; carries what is known for the state."""

    def __init__(self, id_: str, inputs: Values, outputs: Values, reason: str) -> None:
        super().__init__(reason)
        self.id = id_
        self.inputs = inputs
        self.outputs = outputs


def checked(subject: Subject, old: Values, new: Values, seed: bytes) -> tuple[Values, list[Failure]]:
    """Inputs with everything filled in that the configuration and the defaults decide, and what is wrong with them."""
    kind = subject.type
    given = dict(new)
    if PROJECT in kind.inputs and subject.settings.project:
        given.setdefault("project", subject.settings.project)
    if kind.regional and subject.settings.region:
        given.setdefault(kind.regional, subject.settings.region)
    if kind.autonamed and kind.autonamed not in given:
        end = hashlib.sha256(seed + subject.name.encode()).hexdigest()[:_SUFFIX_CHARACTERS]
        given[kind.autonamed] = old.get(kind.autonamed) or f"{subject.name}-{end}".lower()
    inputs, failures = check(kind.inputs, given, f"{kind.noun} {subject.name}")
    if not failures:
        failures = [Failure(path, reason) for path, reason in kind.problems(inputs)]
    return inputs, failures


def diffed(
    subject: Subject, old: Values, new: Values, state: Values, ignored: list[str]
) -> tuple[list[Difference], bool]:
    """Differences, and whether a replacement has to delete the old object before it makes the new one."""
    kind = subject.type
    found = differences(kind.inputs, old or state, new, state)
    # A channel's `labels` are something else: its address. Others write to none of those.
    has_labels = any(field.name == "labels" and field.owned_keys for field in kind.inputs)
    same_labels = not has_unknown(new.get("labels")) and not any(each.top == "labels" for each in found)
    wanted = own_labels(new, subject.settings.default_labels)
    if has_labels and same_labels and wanted != (state.get("pulumiLabels") or {}):
        # The provider's default labels are no input of the resource, and still a change of it.
        found.append(Difference("pulumiLabels", Change.UPDATE, replaces=False))
    found = [each for each in found if not any(_covers(path, each.path) for path in ignored)]
    same_name = all(old.get(name) == new.get(name) for name in kind.identity)
    return found, same_name and any(each.replaces for each in found)


def _covers(ignored: str, path: str) -> bool:
    return path == ignored or path.startswith((f"{ignored}.", f"{ignored}["))


def previewed(subject: Subject, new: Values, state: Values | None = None) -> Values:
    """Outputs as far as they can be known before anything is sent."""
    kind = subject.type
    if state is None:
        return {**dict.fromkeys(kind.outputs, UNKNOWN), **new, **kind.planned(new)}
    dropped = {field.name for field in kind.inputs if field.name not in new and not field.computed}
    kept = {name: value for name, value in state.items() if name not in dropped}
    return {**kept, **new, **kind.planned(new)}


def created(subject: Subject, rest: Rest, inputs: Values, timeout_s: float) -> tuple[str, Values]:
    """Make the object; its id and outputs.

    Raises:
        Partial: it exists, but its making was not seen to end.
        ProviderError: it was not made.
    """
    kind = subject.type
    id_ = kind.id_of(inputs)
    try:
        named = kind.create(rest, inputs, timeout_s) or {}
    except Unfinished as error:
        if not id_:
            raise ProviderError(f"creating {kind.noun} {subject.name}: {error}") from error
        raise Partial(id_, inputs, inputs, f"creating {kind.noun} {id_}: {error}") from error
    except ApiError as error:
        hint = _adoption(subject, id_) if error.code == _EXISTS else ""
        raise ProviderError(f"creating {kind.noun} {id_ or subject.name}: {error}{hint}") from error
    except ProviderError as error:
        raise ProviderError(f"creating {kind.noun} {id_ or subject.name}: {error}") from error
    known = {**inputs, **named}
    id_ = kind.id_of(known)
    return id_, _outputs_now(subject, rest, id_, inputs, known)


def read(subject: Subject, rest: Rest, id_: str, inputs: Values, state: Values) -> Found | None:
    """The object as it is now, None where it is gone. Without inputs and state it is an import by id."""
    kind = subject.type
    importing = not inputs and not state
    basis = {**state, **inputs}
    if importing:
        basis = kind.named_by(id_)
        if PROJECT in kind.inputs:
            basis.setdefault("project", subject.settings.project)
    answer = _explained(f"reading {kind.noun} {id_}", lambda: kind.fetch(rest, basis))
    if answer is None:
        return None
    if importing:
        theirs = {field.name: answer.get(field.name) or {} for field in kind.inputs if field.owned_keys}
        basis = {**basis, **theirs}
    outputs = kind.values(subject.settings, answer, basis)
    seen = inputs_imported(kind.inputs, outputs) if importing else inputs_seen(kind.inputs, inputs, outputs)
    return Found(kind.id_of({**outputs, **basis}) if importing else id_, seen, outputs)


def updated(
    subject: Subject, rest: Rest, id_: str, old: Values, *, new: Values, state: Values, timeout_s: float
) -> Values:
    """Change the object in place; its outputs."""
    kind = subject.type
    try:
        kind.update(rest, old or state, new, state, timeout_s)
    except Unfinished as error:
        raise Partial(id_, new, {**state, **new}, f"updating {kind.noun} {id_}: {error}") from error
    except ProviderError as error:
        raise ProviderError(f"updating {kind.noun} {id_}: {error}") from error
    return _outputs_now(subject, rest, id_, new, {**state, **new})


def deleted(subject: Subject, rest: Rest, id_: str, state: Values, timeout_s: float) -> None:
    """Remove the object; one that is gone already is fine."""
    kind = subject.type
    policy = state.get("deletionPolicy", "DELETE")
    if policy == "ABANDON":
        return
    if policy == "PREVENT":
        raise Refused(
            f"{kind.noun} {id_} has deletionPolicy PREVENT, so nothing was sent. "
            "Set it to DELETE and run `pulumi up` first."
        )
    _explained(f"deleting {kind.noun} {id_}", lambda: kind.delete(rest, state, timeout_s))


def _outputs_now(subject: Subject, rest: Rest, id_: str, inputs: Values, fallback: Values) -> Values:
    """Outputs right after a change; whatever goes wrong here, the object exists and belongs into the state."""
    kind = subject.type
    try:
        answer = kind.fetch(rest, {**fallback, **inputs})
    except ProviderError as error:
        raise Partial(id_, inputs, fallback, f"{kind.noun} {id_} was changed, but not read back: {error}") from error
    if answer is None:
        raise Partial(id_, inputs, fallback, f"{kind.noun} {id_} was changed, but is not there: `pulumi refresh`")
    return kind.values(subject.settings, answer, {**fallback, **inputs})


def _explained(doing: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except Refused:
        raise
    except ProviderError as error:
        raise ProviderError(f"{doing}: {error}") from error


def _adoption(subject: Subject, id_: str) -> str:
    kind = subject.type
    parent = ""
    if subject.nested:
        parent = "It belongs to a component: add --parent NAME=URN of that, from `pulumi stack --show-urns`. "
    return (
        "\nIt exists, but this stack's state does not know it; nothing was changed. To adopt it: "
        f"`pulumi import {kind.token} {subject.name} {id_} --generate-code=false`, then `pulumi up`. "
        f"{parent}If nobody needs it, delete it and run `pulumi up` again."
    )
