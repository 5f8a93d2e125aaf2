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
