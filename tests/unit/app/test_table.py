"""The table of a manifest: columns that come back as they were, in the old format and the new; nothing senseless."""

from __future__ import annotations

import json

import pytest

from app.checkpoint.table import Place, Table, columns, join

PLACES = [
    Place("model/w", "tensor", "bfloat16", (256, 64), 0, 0),
    Place("model/b", "tensor", "float32", (), 0, 32768),
    Place("data/ünï", "array", "int64", (0, 3), 1, 0),
]
TREE = {"model": {"w": {"$tensor": 0}, "b": {"$tensor": 1}}, "data": {"$array": 2}}


def as_format_1(places: list[Place]) -> bytes:
    return json.dumps({"tree": TREE, "tensors": [place._asdict() for place in places]}).encode()


def test_it_comes_back_as_it_was():
    assert Table.decode(Table(TREE, PLACES).encode(), 2) == Table(TREE, PLACES)


def test_a_state_without_tensors_has_empty_columns():
    encoded = Table({"step": 3}).encode()
    assert json.loads(encoded)["tensors"] == {column: [] for column in Place._fields}
    assert Table.decode(encoded, 2) == Table({"step": 3}, [])


def test_format_1_with_a_row_a_tensor_is_still_read():
    assert Table.decode(as_format_1(PLACES), 1) == Table(TREE, PLACES)


def test_columns_are_written_as_the_whole_table_is():
    shapes = [(1,), (), (1,), (2**40, 3), (2, 1)]
    places = [Place(f"p{n}\n", "tensor", f"d{n % 2}", shape, n % 3, 64 * n) for n, shape in enumerate(shapes)]
    for some in ([], places[:1], places):
        turned = list(zip(*some, strict=True)) or [()] * len(Place._fields)
        assert join(TREE, columns(*turned)) == Table(TREE, some).encode()


def test_columns_may_be_kept_and_joined_with_another_tree():
    assert Table.decode(join({"step": 4}, columns(*zip(*PLACES, strict=True))), 2) == Table({"step": 4}, PLACES)


def test_a_column_that_this_version_does_not_know_is_ignored():
    table = json.loads(Table(TREE, PLACES).encode())
    table["tensors"]["note"] = ["x"]
    assert Table.decode(json.dumps(table | {"extra": 1}).encode(), 2) == Table(TREE, PLACES)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("path", 3), ("path", None), ("kind", []), ("dtype", 7), ("shape", 5), ("shape", ["a"]), ("shape", [True])),
        *(("shape", [-1]), ("shard", -1), ("shard", True), ("shard", "0"), ("begin", -4), ("begin", 1.5)),
    ],
)
def test_a_field_of_another_kind_is_refused(version, field, value):
    places = [PLACES[0], PLACES[1]._replace(**{field: value})]
    content = as_format_1(places) if version == 1 else Table(TREE, places).encode()
    with pytest.raises(ValueError, match=r"its|tensor's"):
        Table.decode(content, version)


@pytest.mark.parametrize("content", [b"[]", b"{}", b'{"tree":1}', b'{"tensors":{}}', b'{"tree":1,"tensors":[]}', b"{"])
def test_what_is_no_table_is_refused(content):
    with pytest.raises(ValueError):  # noqa: PT011 - which one does not matter
        Table.decode(content, 2)


def test_columns_of_unequal_length_are_refused():
    table = json.loads(Table(TREE, PLACES).encode())
    table["tensors"]["begin"].pop()
    with pytest.raises(ValueError, match="lengths"):
        Table.decode(json.dumps(table).encode(), 2)
