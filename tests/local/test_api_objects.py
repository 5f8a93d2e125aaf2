"""Objects at the front door: moves in one act, and preconditions that the emulator does not know."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

OBJECTS = "/storage/v1/b/some-bucket/o"


@pytest.fixture(autouse=True)
def bucket(call: Any) -> None:
    call.ok("POST", "/storage/v1/b?project=local-project", {"name": "some-bucket"})


def _write(call: Any, name: str, content: bytes) -> str:
    path = f"/upload/storage/v1/b/some-bucket/o?uploadType=media&name={name}"
    return call.ok("POST", path, content=content)["generation"]


def _names(call: Any) -> list[str]:
    return [item["name"] for item in call.ok("GET", OBJECTS).get("items", [])]


def test_a_move_gives_another_name_and_a_new_generation(call: Any) -> None:
    before = _write(call, "a%2Fold", b"content")
    moved = call.ok("POST", f"{OBJECTS}/a%2Fold/moveTo/o/b%2Fnew?ifGenerationMatch=0&ifSourceGenerationMatch={before}")
    assert (moved["name"], moved["size"]) == ("b/new", "7")
    assert int(moved["generation"]) > int(before)
    assert _names(call) == ["b/new"]
    assert call("GET", f"{OBJECTS}/b%2Fnew?alt=media").content == b"content"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("none/moveTo/o/new", 404),
        ("old/moveTo/o/old", 400),
        ("old/moveTo/o/taken?ifGenerationMatch=0", 412),
        ("old/moveTo/o/new?ifSourceGenerationMatch=1", 412),
        ("old/moveTo/o/new?ifGenerationMatch=7", 412),
    ],
)
def test_a_move_is_refused_and_nothing_changes(call: Any, path: str, code: int) -> None:
    _write(call, "old", b"1")
    _write(call, "taken", b"2")
    assert call("POST", f"{OBJECTS}/{path}").status_code == code
    assert _names(call) == ["old", "taken"]


def test_of_a_move_and_a_deletion_at_once_exactly_one_finds_the_object(call: Any) -> None:
    for number in range(20):
        _write(call, "old", b"1")
        with ThreadPoolExecutor(2) as pool:
            moving = pool.submit(call, "POST", f"{OBJECTS}/old/moveTo/o/new-{number:02d}?ifGenerationMatch=0")
            deleting = pool.submit(call, "DELETE", f"{OBJECTS}/old")
            codes = (moving.result().status_code, deleting.result().status_code)
        assert codes in {(200, 404), (404, 204)}
        assert (f"new-{number:02d}" in _names(call)) == (codes[0] == 200)


def test_a_composition_asks_for_the_generations_of_its_sources(call: Any) -> None:
    generation = _write(call, "a", b"1")
    _write(call, "b", b"2")

    def compose(wanted: str) -> int:
        sources = [{"name": "a", "objectPreconditions": {"ifGenerationMatch": wanted}}, {"name": "b"}]
        return call("POST", f"{OBJECTS}/ab/compose", {"sourceObjects": sources, "destination": {}}).status_code

    assert compose("1") == 412
    assert _names(call) == ["a", "b"]
    assert compose(generation) == 200
    assert call("GET", f"{OBJECTS}/ab?alt=media").content == b"12"
