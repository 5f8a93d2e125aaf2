"""Names parse back to what they were made of, and sort the way a resume must choose."""

from __future__ import annotations

import pytest

from app.checkpoint.names import Attempt, CheckpointName


def test_a_name_reads_as_the_design_says():
    name = CheckpointName.of(Attempt(3, "5f3c1e"), 120)
    assert str(name) == "000000000120-e0003-5f3c1e"
    assert name.manifest == "checkpoints/000000000120-e0003-5f3c1e.json"
    assert name.shard(0) == "shards/000000000120-e0003-5f3c1e/000.safetensors"
    assert name.attempt.document == "ledger/e0003-5f3c1e.json"


@pytest.mark.parametrize(
    "name",
    [
        CheckpointName(1, 0, 0, "000000"),
        CheckpointName(12345, 10**13, 0, "abcdef"),
        CheckpointName(7, 5, 2, "5f3c1e"),
    ],
)
def test_a_name_parses_back(name):
    assert CheckpointName.parse(str(name)) == name


@pytest.mark.parametrize(
    "text", ["", "latest", "120-e0003-5f3c1e", "000000000120-e0003-5F3C1E", "000000000120-e3-5f3c1e", "../x"]
)
def test_other_names_are_none_of_ours(text):
    assert CheckpointName.parse(text) is None
    assert Attempt.parse(text) is None


ALIEN_FOLDERS = ["checkpoints/old/{}.json", "checkpoints/{}.json/{}.json", "checkpoints/{}", "{}.json"]


@pytest.mark.parametrize("form", ALIEN_FOLDERS)
def test_a_proper_name_in_another_place_is_none_of_ours(form):
    name, attempt = CheckpointName(3, 120, 0, "5f3c1e"), Attempt(3, "5f3c1e")
    assert CheckpointName.of_manifest(name.manifest) == CheckpointName.of_record(name.record) == name
    assert Attempt.of_document(attempt.document) == attempt
    assert CheckpointName.of_manifest(form.replace("{}", str(name))) is None
    assert CheckpointName.of_record(form.replace("{}", str(name)).replace("checkpoints", "quarantine")) is None
    assert Attempt.of_document(form.replace("{}", str(attempt)).replace("checkpoints", "ledger")) is None


FULL_WIDTH = str.maketrans("0123456789", "".join(chr(0xFF10 + digit) for digit in range(10)))


@pytest.mark.parametrize(
    "text",
    [
        "0000000000120-e0003-5f3c1e",
        "000000000120-e00003-5f3c1e",
        "000000000120-e0003-5f3c1e-r0",
        "000000000120-e0003-5f3c1e-r01",
        "000000000120".translate(FULL_WIDTH) + "-e0003-5f3c1e",
        "000000000120-e" + "0003".translate(FULL_WIDTH) + "-5f3c1e",
        "000000000120-e0003-5f3c1e\n",
    ],
)
def test_a_number_written_in_another_way_is_none_of_ours(text):
    assert CheckpointName.parse(text) is None
    assert Attempt.parse(text.partition("-")[2]) is None or "e0003-5f3c1e" in text


def test_order_is_by_epoch_then_step_then_try_of_the_save():
    in_order = [
        CheckpointName(1, 900, 0, "ffffff"),
        CheckpointName(2, 5, 0, "aaaaaa"),
        CheckpointName(2, 5, 1, "aaaaaa"),
        CheckpointName(2, 40, 0, "aaaaaa"),
        CheckpointName(10, 1, 0, "000000"),
    ]
    assert sorted({*in_order}) == in_order


def test_every_attempt_draws_its_own_nonce():
    assert len({Attempt(1).nonce for _ in range(50)}) == 50
