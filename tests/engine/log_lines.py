"""Lines of the log in the form that Cloud Run gets (fixture `fields_in_the_log`)."""

from __future__ import annotations

import json
from typing import Any


def lines(out: str, **having: Any) -> list[dict[str, Any]]:
    """Log lines with these fields."""
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [each for each in found if having.items() <= each.items()]
