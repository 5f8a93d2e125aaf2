"""The plugin makes the changing requests that Google's own provider made for the same program."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from localcloud.testing import running_cloud
from tests.local.provider.support import Engine

RECORDED = Path(__file__).parents[1] / "recorded"
# Products whose types the plugin makes; the recording holds some more.
PRODUCTS = ("/run/", "/iam/", "/crm/", "/storage/", "/artifactregistry/", "/serviceusage/")
PROGRAM = '''
import runpy
import pulumi, pulumi_gcp as gcp
class NotMade:
    """Stands in for a type that the plugin does not make."""
    def __init__(self, *_, **__):
        self.name = pulumi.Output.from_input("none")
gcp.logging.Metric = gcp.monitoring.NotificationChannel = gcp.monitoring.AlertPolicy = NotMade
gcp.monitoring.Dashboard = gcp.cloudscheduler.Job = NotMade
runpy.run_path({path!r})
'''


def changing(lines: list[str], phase: str | None = None) -> Counter[str]:
    """Requests that change something, as comparable text; of an etag only its presence counts."""
    found: Counter[str] = Counter()
    for request in map(json.loads, lines):
        reads = request["method"] == "GET" or request["path"].endswith(":getIamPolicy")
        if not reads and request["path"].startswith(PRODUCTS) and phase in (None, request.get("phase")):
            found[json.dumps([request[key] for key in ("method", "path", "query")] + [_plain(request["body"])])] += 1
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
    assert counts == {"create": 13, "change": 3, "destroy": 9}
