"""Every kind of document is in the inventory, or is left out of it for a reason that is written down."""

import ast
from pathlib import Path
from typing import Any

import localcloud
from localcloud.kinds import Kind
from localcloud.server.admin import NOT_RESOURCES, RESOURCES


def test_no_kind_is_forgotten_by_the_inventory() -> None:
    assert RESOURCES.keys() | NOT_RESOURCES.keys() == set(Kind)
    assert not RESOURCES.keys() & NOT_RESOURCES.keys()
    assert all(NOT_RESOURCES.values())


def test_a_kind_is_spelt_in_one_place() -> None:
    spelt = {
        f"{path.name}: {node.value}"
        for path in Path(localcloud.__file__).parent.rglob("*.py")
        if path.name != "kinds.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in [kind.value for kind in Kind if "." in kind]
    }
    assert not spelt


def test_a_project_with_nothing_but_a_schedule_is_a_project(cloud: Any, call: Any) -> None:
    parent = "projects/other-project/locations/europe-west4/jobs"
    call.ok("POST", f"/scheduler/v1/{parent}", {"name": f"{parent}/nightly", "schedule": "0 1 * * *"})
    assert call.ok("GET", "/_localcloud/status")["projects"] == ["other-project"]
    assert call.ok("GET", "/_localcloud/inventory")["resources"] == [
        f"//cloudscheduler.googleapis.com/{parent}/nightly"
    ]
