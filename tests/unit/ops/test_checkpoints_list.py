"""`gpujob checkpoints list` and `verify`: what is on a line, said truly, and nothing changed by looking."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from app.checkpoint import verifying
from app.checkpoint.manifest import Manifest
from app.checkpoint.trees.tree import commit_tree
from ops.checkpoints import where
from ops.checkpoints.billing import Billed
from ops.stack import StackOutputs
from tests.unit.ops.checkpoint_lines import ORIGIN, all_files, commit, files_of, flip, gpujob, line_at, rows, said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job-task-0"


def state(step: int) -> dict[str, object]:
    return {"step": step, "w": np.full(500, step, dtype=np.float32)}


def test_it_shows_step_attempt_time_size_and_state_newest_first(path):
    line = line_at(path)
    commit(line, 10, state(10))
    commit(line, 20, state(20))
    text = gpujob("list", path).output
    found = [cells for text_line in text.splitlines() if len(cells := text_line.split("│")) == 9]
    assert [[cell.strip() for cell in row[1:3]] for row in found] == [
        ["20", str(line.attempt)],
        ["10", str(line.attempt)],
    ]
    assert all(row[4].strip() == "session" and row[7].strip() == "not looked at" for row in found)
    total = sum(len(content) for content in all_files(path).values())
    assert f"{path}: 2 checkpoints, {total / 1000:.1f} kB in 6 objects" in text


def test_as_json_it_has_every_field(path):
    line = line_at(path)
    name = commit(line, 10, state(10))
    found = json.loads(gpujob("list", path, "--json").stdout)
    (row,) = found["checkpoints"]
    assert (row["name"], row["step"], row["attempt"]) == (str(name), 10, str(line.attempt))
    assert (row["state"], row["shards"], row["shared_shards"], row["files"]) == ("unknown", 1, 0, None)
    assert found["line"] == str(path)
    assert found["billed"] is None
    assert found["storage"]["bytes"] == sum(len(content) for content in all_files(path).values())


def test_it_tells_quarantined_torn_and_damaged_manifests_apart(path):
    line = line_at(path)
    names = [commit(line, step, state(step)) for step in (10, 20, 30, 40)]
    torn, damaged = (path / name.manifest for name in names[1:3])
    torn.write_bytes(torn.read_bytes()[:-20])
    flip(damaged, -5)
    flip(files_of(path, names[3])["shard"])
    assert gpujob("verify", path, 40, "--record").exit_code == 1
    assert [row["state"] for row in rows(path)] == ["quarantined", "damaged", "torn", "unknown"]
    text = said(gpujob("list", path))
    assert "has crc32c" in text
    assert "found by gpujob checkpoints verify" in text


def test_with_verify_it_reads_content_and_shows_what_it_found(path):
    line = line_at(path)
    sound, bad = commit(line, 10, state(10)), commit(line, 20, state(20))
    flip(files_of(path, bad)["shard"])
    found = json.loads(gpujob("list", path, "--json", "--verify").stdout)["checkpoints"]
    assert [(row["name"], row["state"]) for row in found] == [(str(bad), "damaged"), (str(sound), "verified")]


def test_shards_that_belong_to_no_checkpoint_are_counted_apart(path):
    line = line_at(path)
    commit(line, 10, state(10))
    left = path / "shards/000000000020-e0001-aaaaaa/000.safetensors"
    left.parent.mkdir()
    left.write_bytes(b"x" * 5000)
    assert "5.0 kB of it belong to no checkpoint" in said(gpujob("list", path))


def test_a_tree_is_shown_with_its_number_of_files(path, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/weights").write_bytes(b"1")
    commit_tree(line_at(path), 7, tmp_path / "out", ORIGIN)
    assert "tree, 1 file" in said(gpujob("list", path))
    assert "verified" in said(gpujob("verify", path))


def test_of_a_folder_with_several_lines_it_says_which_there_are(tmp_path):
    for index in (0, 1):
        commit(line_at(tmp_path / f"job-task-{index}"), 10)
    done = gpujob("list", tmp_path)
    assert (done.exit_code, "job-task-0 job-task-1" in said(done)) == (0, True)
    assert json.loads(gpujob("list", tmp_path, "--json").stdout)["lines"] == ["job-task-0", "job-task-1"]
    refused = gpujob("verify", tmp_path)
    assert refused.exit_code == 2
    assert f"Name one, such as {tmp_path}/job-task-0" in said(refused)


def test_a_folder_with_one_line_stands_for_it(tmp_path, path):
    commit(line_at(path), 10)
    assert f"{path}: 1 checkpoint" in said(gpujob("list", tmp_path))


@pytest.mark.parametrize(
    ("arrange", "words"),
    [
        (lambda path: None, "There is no checkpoint line in"),
        (lambda path: path.mkdir(), "it is empty"),
        (lambda path: (path.mkdir(), (path / "notes.txt").touch()), "none of the folders"),
        (lambda path: path.touch(), "it is no directory"),
    ],
    ids=["absent", "empty", "no line", "a file"],
)
def test_where_no_line_is_it_says_so(tmp_path, arrange, words):
    arrange(tmp_path / "there")
    for command in (["list"], ["verify"], ["export", "--out", "x"], ["prune", "--keep", "2"]):
        done = gpujob(command[0], tmp_path / "there", *command[1:])
        assert (done.exit_code, words in said(done)) == (3, True), said(done)


def test_of_a_directory_no_more_than_two_levels_are_looked_at(tmp_path, monkeypatch):
    deep = tmp_path / "a/b/c"
    deep.mkdir(parents=True)
    looked, real = [], Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: (looked.append(path), real(path))[1])
    assert gpujob("list", tmp_path).exit_code == 3
    assert looked == [tmp_path, tmp_path / "a"]


def test_an_address_of_another_kind_is_wrong_use():
    done = gpujob("list", "s3://bucket/line")
    assert (done.exit_code, "gs://" in said(done)) == (2, True)


def test_trouble_with_storage_has_its_own_code(path, monkeypatch):
    commit(line_at(path), 10)

    def forbidden(_url: str):
        raise PermissionError(13, "Permission denied", "there")

    def unreachable(_url: str):
        raise OSError(5, "Input/output error", "there")

    monkeypatch.setattr(where, "store_at", forbidden)
    assert (gpujob("list", path).exit_code, "Permission denied (there)" in said(gpujob("list", path))) == (3, True)
    monkeypatch.setattr(where, "store_at", unreachable)
    assert gpujob("list", path).exit_code == 4


def test_with_a_stack_the_lines_are_the_stacks(path, tmp_path, monkeypatch):
    commit(line_at(path), 10)
    commit(line_at(tmp_path / "job-task-1"), 20)
    outputs = StackOutputs("p", "r", "job", "id", f"{path}", {"storage": "http://127.0.0.1:9/storage/v1/"})
    monkeypatch.setattr("ops.stack.read_outputs", lambda stack: {"dev": outputs}[stack])
    monkeypatch.setenv(where.EMULATOR, "stale")
    assert "job-task-0 job-task-1" in said(gpujob("list", "-s", "dev"))
    assert "job-task-1: 1 checkpoint" in said(gpujob("list", "job-task-1", "--stack", "dev"))
    assert where.os.environ[where.EMULATOR] == "http://127.0.0.1:9"


def test_an_emulator_left_in_the_environment_does_not_answer_for_a_real_stack(monkeypatch):
    monkeypatch.setenv(where.EMULATOR, "http://127.0.0.1:9")
    where.speak_to({})
    assert where.EMULATOR not in where.os.environ


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (Billed(0, 0), "Billed: 1.0 GB. Soft delete is off"),
        (Billed(604800, 3 * 10**9), "for 7 days: 3.0 GB deleted but kept. Billed: 4.0 GB."),
        (Billed(86400, None, "Forbidden: no"), "for 1 day, and bills it. How much that is now is not known: Forbidden"),
        (Billed(None, None, "Forbidden: no"), "is not known: Forbidden: no"),
    ],
)
def test_the_sentence_about_billing_says_what_is_known(known, words):
    assert words in known.sentence(10**9)


# verify


def test_it_says_of_each_that_it_verifies_and_changes_nothing(path):
    line = line_at(path)
    names = [commit(line, step, state(step)) for step in (10, 20)]
    before = all_files(path)
    done = gpujob("verify", path)
    assert done.exit_code == 0
    assert [text.rpartition(",")[0] for text in done.stdout.splitlines()] == [
        f"{name}  verified: {name_size(path, name)} in 1 shard" for name in reversed(names)
    ]
    assert all_files(path) == before


def name_size(path: Path, name) -> str:
    return f"{files_of(path, name)['shard'].stat().st_size / 1000:.1f} kB"


@pytest.mark.parametrize("what", ["manifest", "shard"])
def test_a_damaged_one_is_exit_1_and_nothing_is_recorded(path, what):
    line = line_at(path)
    names = [commit(line, step, state(step)) for step in (10, 20)]
    flip(files_of(path, names[0])[what], -5)
    before = all_files(path)
    done = gpujob("verify", path)
    assert done.exit_code == 1
    assert f"1 of 2 checkpoints damaged: {names[0]}. Nothing was changed" in said(done)
    assert all_files(path) == before
    assert gpujob("verify", path, 20).exit_code == 0


def test_a_missing_shard_is_damage(path):
    line = line_at(path)
    name = commit(line, 10, state(10))
    files_of(path, name)["shard"].unlink()
    done = gpujob("verify", path)
    assert (done.exit_code, "missing" in said(done)) == (1, True)


def test_record_makes_the_job_pass_over_it(path):
    line = line_at(path)
    older, newer = (commit(line, step, state(step)) for step in (10, 20))
    flip(files_of(path, newer)["shard"])
    assert "recorded in quarantine now" in said(gpujob("verify", path, "--record"))
    from tests.engine.lines import resume

    loaded = resume(line.store)
    assert loaded is not None
    assert loaded.name == older


def test_a_torn_manifest_is_told_and_is_no_damage(path):
    line = line_at(path)
    name = commit(line, 10, state(10))
    (path / name.manifest).write_bytes((path / name.manifest).read_bytes()[:-9])
    done = gpujob("verify", path)
    assert (done.exit_code, f"{name} torn:" in said(done)) == (0, True)


@pytest.mark.parametrize(
    ("typed", "code", "words"),
    [
        ("30", 3, "has no checkpoint 30"),
        ("0000000000", 3, "Give the whole name"),
        ("000000000010", 0, "000000000010-e0001"),
        ("10", 0, "000000000010-e0001"),
    ],
)
def test_a_checkpoint_is_named_by_its_step_or_the_beginning_of_its_name(path, typed, code, words):
    line = line_at(path)
    commit(line, 10)
    commit(line, 20)
    done = gpujob("verify", path, typed)
    assert (done.exit_code, words in said(done)) == (code, True), said(done)


def test_a_step_that_two_attempts_committed_is_ambiguous(path):
    names = [commit(line_at(path), 10) for _ in range(2)]
    done = gpujob("verify", path, "10")
    assert done.exit_code == 3
    assert all(str(name) in said(done) for name in names)
    assert gpujob("verify", path, names[0]).exit_code == 0


def test_a_tensor_that_ends_behind_its_shard_is_damage(path):
    name = commit(line_at(path), 10, state(10))
    manifest = Manifest.decode((path / name.manifest).read_bytes())
    table = manifest.table.replace(b'"shape":[[500]]', b'"shape":[[50000]]')
    assert table != manifest.table
    (path / name.manifest).write_bytes(Manifest(manifest.head, table).encode())
    done = gpujob("verify", path)
    assert (done.exit_code, "ends behind its shard" in said(done)) == (1, True)


@pytest.mark.parametrize("how", [("verify",), ("list", "--verify")])
def test_what_a_job_prunes_while_it_is_looked_at_is_told_and_the_others_are_read(path, monkeypatch, how):
    line = line_at(path)
    gone, kept = commit(line, 10, state(10)), commit(line, 20, state(20))
    real = verifying.verify

    def verify(store, name, *rest):
        if name == gone:
            files_of(path, gone)["shard"].unlink()
            files_of(path, gone)["manifest"].unlink()
        return real(store, name, *rest)

    monkeypatch.setattr(verifying, "verify", verify)
    command, *flags = how
    done = gpujob(command, path, *flags)
    assert done.exit_code == 0
    assert "pruned" in said(done)
    assert f"{kept.step}" in said(done)
    assert "verified" in said(done)


def test_when_all_that_was_to_be_verified_is_pruned_it_says_to_try_again(path, monkeypatch):
    name = commit(line_at(path), 10, state(10))

    def verify(*_: object) -> None:
        raise FileNotFoundError(name.manifest)

    monkeypatch.setattr(verifying, "verify", verify)
    done = gpujob("verify", path)
    assert done.exit_code == 3
    assert "verify again" in said(done)
