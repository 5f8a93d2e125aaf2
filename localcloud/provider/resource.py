"""What a resource type is: declared fields, and the calls that make, read, change and remove one object."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import ClassVar

from localcloud.provider.bodies import values_of
from localcloud.provider.errors import ApiError
from localcloud.provider.fields import Field, text
from localcloud.provider.rest import Rest
from localcloud.provider.settings import Settings
from localcloud.provider.values import Values, dig

GONE = 404

DELETION_POLICY = text("deletionPolicy", local=True, choices=("DELETE", "ABANDON", "PREVENT"))
PROJECT = text("project", local=True, replaces=True, required=True)


class ResourceType(ABC):
    """One Pulumi type. Instances hold no state, so one serves all threads."""

    token: ClassVar[str]
    noun: ClassVar[str]
    """What people call it, for messages."""
    inputs: ClassVar[tuple[Field, ...]]
    outputs: ClassVar[dict[str, str]] = {}
    """Further outputs: property name -> dotted path in the API's answer."""
    identity: ClassVar[tuple[str, ...]]
    """Inputs that the object's name is made of. When all stay, a replacement must delete first."""
    autonamed: ClassVar[str] = ""
    """Input that gets the resource's name and a random end where the program gives none."""
    regional: ClassVar[str] = ""
    """Input that is filled in from gcp:region."""

    @abstractmethod
    def id_of(self, inputs: Values) -> str:
        """The id in Pulumi's state."""

    @abstractmethod
    def named_by(self, given: str) -> Values:
        """Identity inputs from an id, as `pulumi import` gives it.

        Raises:
            Refused: it has another form; the message shows the right one.
        """

    @abstractmethod
    def create(self, rest: Rest, inputs: Values, timeout_s: float) -> Values | None:
        """Make the object; what the API named it, where inputs alone do not name it."""

    @abstractmethod
    def fetch(self, rest: Rest, inputs: Values) -> Values | None:
        """The API's answer for the object, None where it is gone. `inputs` hold at least the identity."""

    @abstractmethod
    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None: ...

    @abstractmethod
    def delete(self, rest: Rest, state: Values, timeout_s: float) -> None: ...

    def values(self, settings: Settings, answer: Values, inputs: Values) -> Values:  # noqa: ARG002 - for subclasses
        """Outputs from an answer; `inputs` supply what the API does not know about."""
        found = values_of(self.inputs, answer)
        for name, path in self.outputs.items():
            value = dig(answer, path)
            if value is not None:
                found[name] = value
        for field in self.inputs:
            if field.local and inputs.get(field.name) is not None:
                found[field.name] = inputs[field.name]
        return found

    def planned(self, inputs: Values) -> Values:  # noqa: ARG002 - for subclasses
        """Outputs that are known before the object exists, so that a preview can show them."""
        return {}

    def problems(self, inputs: Values) -> list[tuple[str, str]]:  # noqa: ARG002 - for subclasses
        """(property, reason) for rules over several inputs."""
        return []


def fetched(rest: Rest, url: str, query: dict[str, str] | None = None) -> Values | None:
    """GET, with None for an object that is not there."""
    return _unless_gone(rest, "GET", url, query)


def removed(rest: Rest, url: str, query: dict[str, str] | None = None) -> Values | None:
    """DELETE, with None for an object that is gone already: that is what was wanted."""
    return _unless_gone(rest, "DELETE", url, query)


def _unless_gone(rest: Rest, method: str, url: str, query: dict[str, str] | None) -> Values | None:
    try:
        return rest.call(method, url, query=query)
    except ApiError as error:
        if error.code == GONE:
            return None
        raise


class Locks:
    """One lock a name, for read-modify-write of something that several resources share."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)

    def of(self, name: str) -> threading.Lock:
        with self._guard:
            return self._locks[name]
