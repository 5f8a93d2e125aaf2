"""A dashboard is one JSON text: what makes two of them the same, and what of an answer is the program's own."""

from __future__ import annotations

import json
from typing import cast

from localcloud.provider.values import Tree, Values

_BY_THE_API = ("name", "etag")


def parsed(text: str) -> Values | None:
    """The object that the text spells; None if it spells none."""
    try:
        found: Tree = json.loads(text)
    except ValueError:
        return None
    return cast("Values", found) if isinstance(found, dict) else None


def canonical(text: str) -> str:
    """One spelling for all texts that mean the same dashboard."""
    found = parsed(text)
    return text if found is None else _spelled(found)


def seen(written: str | None, answer: Values) -> str:
    """The answer as the program would have written it: what the API filled in beside is left out, as Google's
    provider does it. Without a program (an import) all of it, but for name and etag."""
    wanted = parsed(written) if written else None
    found = _own(answer if wanted is None else _as_far_as_written(wanted, answer))
    return written if written and _own(wanted or {}) == found else _spelled(found)


def _as_far_as_written(written: Tree, answer: Tree) -> Tree:
    if isinstance(written, dict) and isinstance(answer, dict):
        ours, theirs = cast("Values", written), cast("Values", answer)
        return {key: _as_far_as_written(ours[key], value) for key, value in theirs.items() if key in ours}
    if isinstance(written, list) and isinstance(answer, list):
        mine, other = cast("list[Tree]", written), cast("list[Tree]", answer)
        if len(mine) == len(other):
            return [_as_far_as_written(*pair) for pair in zip(mine, other, strict=True)]
    return answer


def _own(dashboard: Values) -> Values:
    return {key: value for key, value in dashboard.items() if key not in _BY_THE_API}


def _spelled(dashboard: Values) -> str:
    return json.dumps(_own(dashboard), sort_keys=True, separators=(",", ":"))
