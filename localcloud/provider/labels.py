"""Labels: the program's own, the provider's default ones, and those that somebody else put on the object."""

from __future__ import annotations

from collections.abc import Mapping

from localcloud.provider.values import Values


def own_labels(inputs: Values, defaults: Mapping[str, str], key: str = "labels") -> dict[str, str]:
    """What this stack wants on the object."""
    return {**defaults, **(inputs.get(key) or {})}


def merged_labels(
    new: Values, state: Values, defaults: Mapping[str, str], key: str = "labels", effective: str = "effectiveLabels"
) -> dict[str, str]:
    """What the object will carry: other people's labels stay, ours are as the program now says."""
    was_ours = set(state.get("pulumiLabels" if key == "labels" else key) or state.get(key) or {})
    others = {name: value for name, value in (state.get(effective) or {}).items() if name not in was_ours}
    return {**others, **own_labels(new, defaults, key)}


def label_outputs(inputs: Values, answer: Values, defaults: Mapping[str, str]) -> Values:
    """The three label outputs of Google's provider."""
    there: dict[str, str] = answer.get("labels") or {}
    ours = own_labels(inputs, defaults)
    return {
        "labels": {name: there[name] for name in inputs.get("labels") or {} if name in there},
        "effectiveLabels": there,
        "pulumiLabels": {name: there[name] for name in ours if name in there},
    }
