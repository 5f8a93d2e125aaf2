"""Where nothing loads, a line that ever held a checkpoint does not start over, and every reason is told."""

from __future__ import annotations

import shutil

import pytest

from app.checkpoint.resume import NothingLoads
from app.checkpoint.storage.directory import DirectoryStore
from tests.engine.corruption.damaged_line import files_of
from tests.engine.lines import resume


def test_if_nothing_loads_the_refusal_lists_every_reason(line):
    for step in (10, 20):
        files_of(line, step)["shard"].write_bytes(b"damaged")
    with pytest.raises(NothingLoads) as refusal:
        resume(DirectoryStore(line))
    message = str(refusal.value)
    assert "000000000010" in message
    assert "000000000020" in message
    assert "step 0" in message
    assert refusal.value.exit_code == 78


def test_a_later_refusal_still_says_what_was_wrong_with_each_checkpoint(line):
    for step in (10, 20):
        shard = files_of(line, step)["shard"]
        shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")
    with pytest.raises(NothingLoads) as first:
        resume(DirectoryStore(line))
    with pytest.raises(NothingLoads) as second:
        resume(DirectoryStore(line))
    for told in (str(first.value), str(second.value)):
        assert told.count("has crc32c") == 2
    assert str(second.value).count("(found by test at ") == 2


def test_a_torn_quarantine_record_still_keeps_its_checkpoint_out_and_says_that_it_is_torn(line):
    for step in (10, 20):
        files_of(line, step)["shard"].write_bytes(b"damaged")
    with pytest.raises(NothingLoads):
        resume(DirectoryStore(line))
    for record in (line / "quarantine").iterdir():
        record.write_text(record.read_text()[:9])
    with pytest.raises(NothingLoads) as refusal:
        resume(DirectoryStore(line))
    assert str(refusal.value).count("is torn") == 2


def test_if_every_manifest_is_gone_but_the_ledger_knows_of_one_it_does_not_start_over(line):
    shutil.rmtree(line / "checkpoints")
    with pytest.raises(NothingLoads, match="ledger"):
        resume(DirectoryStore(line), ever_committed=True)


def test_a_fresh_line_has_nothing_to_resume(tmp_path):
    assert resume(DirectoryStore(tmp_path)) is None


class TestNothingLeft:
    """No manifest is whole and no ledger document either: was there ever a checkpoint?"""

    @pytest.fixture
    def emptied(self, line):
        for path in [*(line / "checkpoints").iterdir(), *(line / "ledger").iterdir()]:
            path.write_bytes(b"")
        return line

    @pytest.mark.parametrize("hint", ["sound", "torn", "empty"])
    def test_the_hint_is_only_written_after_a_commit_so_there_was(self, emptied, hint):
        latest = emptied / "latest.json"
        latest.write_bytes(latest.read_bytes()[: {"sound": None, "torn": 9, "empty": 0}[hint]])
        with pytest.raises(NothingLoads, match=r"latest\.json") as refusal:
            resume(DirectoryStore(emptied))
        assert str(refusal.value).count("its manifest is cut short") == 2

    def test_a_quarantine_record_says_so_too(self, emptied):
        (emptied / "latest.json").unlink()
        (emptied / "quarantine").mkdir()
        (emptied / "quarantine/000000000005-e0001-aaaaaa.json").write_text("{}")
        with pytest.raises(NothingLoads, match="quarantine"):
            resume(DirectoryStore(emptied))

    @pytest.mark.parametrize("manifest", ["torn", "none"])
    def test_shards_alone_are_what_a_first_save_leaves_when_it_is_killed(self, emptied, manifest):
        (emptied / "latest.json").unlink()
        if manifest == "none":
            shutil.rmtree(emptied / "checkpoints")
        assert list((emptied / "shards").iterdir())
        assert resume(DirectoryStore(emptied)) is None
