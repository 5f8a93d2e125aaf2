"""Directory trees as checkpoints: what frameworks write as files, committed by the protocol that holds for sessions.

A tree's shards are its files' bytes, one after the other: large files in objects of their own, which are then
byte for byte the file, small ones together. docs/checkpoints.md, "Directory trees".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from app.checkpoint import reader, writer
from app.checkpoint.codec import Unsavable
from app.checkpoint.manifest import Damaged, Torn, Unsupported
from app.checkpoint.names import CHECKPOINTS, checkpoints_among
from app.checkpoint.reader import Loaded
from app.checkpoint.resume import Resumer
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.trees.source import Source
from app.checkpoint.trees.table import TreeTable
from app.checkpoint.trees.target import Unfinished, place_for
from app.contract import Refusal

if TYPE_CHECKING:
    import os

    from app.checkpoint.line import Line
    from app.checkpoint.manifest import Head, Manifest
    from app.checkpoint.names import CheckpointName
    from app.checkpoint.storage.store import Store
    from app.checkpoint.writer import Origin

SUFFIX = "files"
"""Of a shard's name."""


def commit_tree(line: Line, step: int, directory: str | os.PathLike[str], origin: Origin) -> CheckpointName:
    """Commit everything below `directory` as the state after `step` steps. Once this returns it is durable and found.

    Kept: names, content, permission bits, times of files and directories; links that stay inside; what is empty.
    Nothing was announced when it raises: OSError; TreeChanged when a file changed meanwhile; Unsavable, with the path,
    for what a checkpoint cannot hold; Superseded when a newer attempt works on the line; Refusal on a session's line.
    """
    _refuse_among_states(line.store)
    root = Path(directory).resolve()
    if isinstance(line.store, DirectoryStore) and line.store.root.resolve().is_relative_to(root):
        raise Unsavable(f"{root} holds the checkpoint line {line.store.root}, which cannot be a part of itself.")
    source = Source.settled(root, line.sleep)
    table = source.table()

    def write(name: CheckpointName) -> None:
        contents = [source.blocks(group) for group in source.groups]
        written = writer.write_shards(line.store, name, contents, SUFFIX)
        writer.publish(
            line.store,
            name,
            written,
            table.encode(),
            origin=origin,
            before_publish=source.refuse_if_changed,
            files=len(table.files),
        )

    return line.commit_by(step, write)


def restore_tree(
    line: Line, directory: str | os.PathLike[str], *, ever_committed: bool = False
) -> CheckpointName | None:
    """The newest tree that verifies, at `directory`, which must be absent or empty. None on a line without any.

    It is written beside `directory` and renamed when every byte is verified and durable. `ever_committed`: the ledger
    knows of a commit. Raises Refusal (NothingLoads among them) and StoreUnavailable; `directory` is then as before.
    """
    place = place_for(Path(directory))

    def load(store: Store, name: CheckpointName) -> Loaded:
        head, table = head_and_tree(store, name)
        unfinished = Unfinished.beside(place)
        try:
            unfinished.fill(store, head.shards, table)
        except BaseException:
            unfinished.abandon()
            raise
        return Loaded(name, head, unfinished)

    search = Resumer(line.store, str(line.attempt), line.sleep, load=load)
    found = search.newest(ever_committed=ever_committed)
    if found is None:
        return None
    tree: Unfinished = found.state
    try:
        tree.put_in_place()
    except BaseException:
        tree.abandon()
        raise
    line.resumed_from(found.name)
    return found.name


def head_and_tree(store: Store, name: CheckpointName) -> tuple[Head, TreeTable]:
    """A tree's manifest, checked. Raises Torn, Damaged, Unsupported, OSError, and Refusal for a session's state."""
    manifest = reader.read_manifest(store, name)
    if manifest.head.files is None:
        raise Refusal(
            f"Checkpoint {name} is the state of a session, not a directory tree. Nothing was changed. Resume it with "
            "session(), or give the tree another CHECKPOINT_DIR or job name."
        )
    return manifest.head, table_of(manifest)


def table_of(manifest: Manifest) -> TreeTable:
    """Raises Damaged for a table that makes no sense or holds unsafe names."""
    head = manifest.head
    try:
        table = TreeTable.decode(manifest.table, [shard.size_bytes for shard in head.shards])
    except (ValueError, RecursionError) as error:
        raise Damaged(f"its bytes verify but its tree makes no sense: {error}") from error
    if len(table.files) != head.files:
        raise Damaged(f"its head counts {head.files} files, its table {len(table.files)}")
    return table


def _refuse_among_states(store: Store) -> None:
    """Raises Refusal on a line of a session: neither kind could resume the other."""
    for name in sorted(checkpoints_among(store.list(CHECKPOINTS)), reverse=True):
        try:
            head = reader.read_manifest(store, name).head
        except (Torn, Damaged, Unsupported, FileNotFoundError):
            continue  # the next one tells
        if head.files is None:
            raise Refusal(
                f"This line holds the state of a session (checkpoint {name}), so no directory tree is committed to "
                "it. Nothing was written. Use another CHECKPOINT_DIR or job name."
            )
        return
