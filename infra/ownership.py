"""Which stack made an object, said by the object itself: two stacks that share names must not take over each other's.

A label where there are labels, a sentence in the description where there are none. Both stay as they were made, so that
renaming a stack changes nothing: the mark is compared with what a creation would have written, never with today's name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

LABEL = "gpujob-stack"
_SENTENCE = re.compile(r"\bMade by stack ([a-z0-9_-]+)\.$")
LABEL_STAYS = f'labels["{LABEL}"]'
USER_LABEL_STAYS = f'userLabels["{LABEL}"]'
"""What `ignore_changes` is told, by the kind of labels."""
_LONGEST = 63


def mark(stack: str) -> str:
    """The stack's name as a label may hold it; a name that has to be changed for that gets a hash of itself."""
    plain = re.sub(r"[^a-z0-9_-]", "-", stack.lower())
    if plain == stack and len(plain) <= _LONGEST:
        return plain
    return f"{plain[: _LONGEST - 9]}-{hashlib.sha256(stack.encode()).hexdigest()[:8]}"


def owned(labels: Mapping[str, str], stack: str) -> dict[str, str]:
    """Labels of what the stack makes; those given where there is no stack to speak of."""
    return {**labels, LABEL: mark(stack)} if stack else dict(labels)


def described(stack: str, text: str = "") -> str | None:
    """The description of something that has no labels."""
    return f"{text} Made by stack {mark(stack)}.".strip() if stack else text or None


def owner_of(document: Mapping[str, Any]) -> str:
    """The mark that an object, or the inputs of one, bears; empty if it bears none."""
    for labels in (document.get("labels"), document.get("userLabels")):
        if isinstance(labels, Mapping) and labels.get(LABEL):
            return str(labels[LABEL])
    said = _SENTENCE.search(str(document.get("description") or ""))
    return said[1] if said else ""
