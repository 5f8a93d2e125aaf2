"""A damaged tree, or a manifest that leads out of it, is not restored: the one before is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.checkpoint import manifest as manifests
from app.checkpoint.line import Line
from app.checkpoint.names import CheckpointName
from app.checkpoint.resume import NothingLoads
from app.checkpoint.storage.store import read
from app.checkpoint.trees.table import Directory, File, Link, TreeTable, leads_inside
from app.checkpoint.trees.tree import commit_tree, restore_tree
from tests.engine.lines import ORIGIN
from tests.engine.trees.files import write


def each_object_of(line: Line, name: CheckpointName) -> list[Path]:
    names = [name.manifest, *(entry.name for entry in line.store.list(name.shards))]
    return [line.store.root / each for each in names]


def test_a_flipped_byte_anywhere_means_the_tree_before(line, root, out):
    line.sleep = lambda _s: None
    older = commit_tree(line, 1, out, ORIGIN)
    write(out, {"run.sh": b"second"})
    newer = commit_tree(line, 2, out, ORIGIN)
    trials = 0
    for path in each_object_of(line, newer):
        content = path.read_bytes()
        for at in range(0, len(content), max(1, len(content) // 40)):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            assert restore_tree(line, root / "again") == older, f"{path} at {at}"
            shutil.rmtree(root / "again")
            shutil.rmtree(root / "line/quarantine", ignore_errors=True)
            trials += 1
        path.write_bytes(content)
    assert restore_tree(line, root / "again") == newer
    assert trials > 80


def test_a_lost_shard_is_recorded_in_quarantine(line, root, out):
    line.sleep = lambda _s: None
    name = commit_tree(line, 1, out, ORIGIN)
    (line.store.root / name.shard(0, "files")).unlink()
    with pytest.raises(NothingLoads, match="missing"):
        restore_tree(line, root / "again")
    assert [entry.name for entry in line.store.list("quarantine/")] == [name.record]
    assert sorted(path.name for path in root.iterdir()) == ["line", "out"]


FILE, FOLDER = File("a", 0, 0o644, 0, 0, 0), Directory("d", 0o755, 0)
HOSTILE = {
    "up": TreeTable([FILE._replace(path="../a")]),
    "up in the middle": TreeTable([FILE._replace(path="d/../../a")], [FOLDER]),
    "absolute": TreeTable([FILE._replace(path="/etc/a")]),
    "NUL": TreeTable([FILE._replace(path="a\0b")]),
    "empty": TreeTable([FILE._replace(path="")]),
    "itself": TreeTable([FILE._replace(path=".")]),
    "empty part": TreeTable([FILE._replace(path="d//a")], [FOLDER]),
    "a lone surrogate": TreeTable([FILE._replace(path="\ud800")]),
    "twice": TreeTable([FILE, FILE]),
    "twice but for case": TreeTable([FILE, FILE._replace(path="A")]),
    "directory but for case": TreeTable([FILE._replace(path="D")], [FOLDER]),
    "no directory above": TreeTable([FILE._replace(path="d/a")]),
    "through a link": TreeTable([FILE._replace(path="l/a")], [FOLDER], [Link("l", "d")]),
    "absolute link": TreeTable(links=[Link("l", "/etc")]),
    "link out": TreeTable(links=[Link("l", "../x")]),
    "link to nothing": TreeTable(links=[Link("l", "")]),
    "link by another": TreeTable([], [FOLDER], [Link("d/l", "m/../../x"), Link("d/m", "../d")]),
    "set-user-id": TreeTable([FILE._replace(mode=0o4755)]),
    "long ago": TreeTable([FILE._replace(modified_ns=-(2**70))]),
    "bytes of no shard": TreeTable([FILE._replace(size_bytes=4)]),
    "fewer than no bytes": TreeTable([FILE._replace(size_bytes=-4)]),
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_manifest_that_would_write_elsewhere_is_damaged_and_nothing_is_written(line, root, out, hostile):
    line.sleep = lambda _s: None
    older = commit_tree(line, 1, out, ORIGIN)
    name = CheckpointName.of(line.attempt, 2)
    head = manifests.Manifest.decode(read(line.store, older.manifest)).head
    table = HOSTILE[hostile]
    changed = {"name": str(name), "step": 2, "shards": (), "files": len(table.files)}
    forged = manifests.Head(**{**vars(head), **changed})
    line.store.publish(name.manifest, manifests.Manifest(forged, table.encode()).encode())
    assert restore_tree(line, root / "a" / "again") == older
    assert [path.name for path in (root / "a").iterdir()] == ["again"]
    assert name.record in [entry.name for entry in line.store.list("quarantine/")]


@pytest.mark.parametrize("field", File._fields)
@pytest.mark.parametrize("value", [None, 1.5, "x", [], True])
def test_a_table_with_a_field_of_another_kind_makes_no_sense(field, value):
    if (field, value) == ("path", "x"):
        return
    table = json.loads(TreeTable([FILE]).encode())
    table["files"][field] = [value]
    with pytest.raises(ValueError, match=f"a {field} is"):
        TreeTable.decode(json.dumps(table).encode(), [])


def test_columns_of_unequal_length_make_no_sense():
    table = json.loads(TreeTable([FILE]).encode())
    table["files"]["mode"].append(0)
    with pytest.raises(ValueError, match="argument"):
        TreeTable.decode(json.dumps(table).encode(), [])


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        *(("l", "a", True), ("l", "a/b", True), ("a/l", "../b", True), ("a/b/l", "../../c", True)),
        *(("l", "../a", False), ("a/l", "../../b", False), ("l", ".", False), ("l", "a/..", False)),
        *(("a/l", "..", False), ("l", "/a", False), ("l", "a//b", False), ("l", "a\0", False)),
    ],
)
def test_a_link_leads_inside_or_is_refused(path, target, inside):
    assert leads_inside(Link(path, target)) is inside
