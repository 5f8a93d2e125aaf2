"""The plugin makes the changing requests that Google's own provider made for the same program."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from localcloud.testing import running_cloud
from tests.local.provider.support import Engine

RECORDED = Path(__file__).parents[1] / "recorded"
PROGRAM = "import runpy; runpy.run_path({path!r})"
_GIVEN_BY_THE_API = re.compile(r"(dashboards|notificationChannels|alertPolicies)/\d+")


def changing(lines: list[str], phase: str | None = None) -> Counter[str]:
    """Requests that change something, as comparable text; of an etag, and of an id by the API, only its presence."""
    found: Counter[str] = Counter()
    for request in map(json.loads, lines):
        reads = request["method"] == "GET" or request["path"].endswith(":getIamPolicy")
        if not reads and phase in (None, request.get("phase")):
            text = json.dumps([request[key] for key in ("method", "path", "query")] + [_plain(request["body"])])
            found[_GIVEN_BY_THE_API.sub(r"\1/ID", text)] += 1
    return found


def _plain(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: "etag" if key == "etag" else _plain(body[key]) for key in sorted(body)}
    return [_plain(item) for item in body] if isinstance(body, list) else body


@pytest.mark.slow
@pytest.mark.engine
def test_every_phase_equals_the_recording(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    expected = (RECORDED / "requests.jsonl").read_text().splitlines()
    with running_cloud(tmp_path / "cloud", record=log) as cloud:
        program = PROGRAM.format(path=str(RECORDED / "program.py"))
        engine = Engine(tmp_path / "stack", program, cloud.url)
        phases = {
            "create": lambda: engine.up(HNS="1", OBS="1"),
            "change": lambda: engine.up(HNS="1", OBS="1", V="9"),
            "destroy": engine.destroy,
        }
        seen = 0
        counts: dict[str, int] = {}
        for phase, command in phases.items():
            command()
            lines = log.read_text().splitlines()
            sent, wanted = changing(lines[seen:]), changing(expected, phase)
            seen = len(lines)
            assert sent == wanted, f"{phase}: not sent {wanted - sent}, sent beyond {sent - wanted}"
            counts[phase] = sum(sent.values())
    assert counts == {"create": 19, "change": 8, "destroy": 14}
