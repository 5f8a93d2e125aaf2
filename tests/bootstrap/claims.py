"""What Google Cloud makes of the claims in GitHub's token."""

from __future__ import annotations

import re
from typing import Any


def evaluated(expression: str, claims: dict[str, str]) -> str:
    """The value of `A ? B : (C) ? D : E`, which in CEL, as here, takes the rest as its last part."""
    condition, _, rest = expression.partition(" ? ")
    if not rest:
        return str(truth(expression, claims))
    value, _, otherwise = rest.partition(" : ")
    return str(truth(value, claims)) if truth(condition, claims) else evaluated(otherwise, claims)


def truth(expression: str, claims: dict[str, str]) -> Any:
    python = re.sub(r"has\(assertion\.(\w+)\)", r"('\1' in claims)", expression)
    python = re.sub(r"assertion\.(\w+)", r"claims['\1']", python).replace("&&", "and")
    python = re.sub(r"!(?!=)", "not ", python)
    return eval(python, {"claims": claims})  # noqa: S307 - an expression of this tree
