"""The adapter drives the real engine: what it measures is a save that is there and a state that comes back."""

import pytest
import torch

from bench import peers
from bench.engine import EngineLine, EngineSession, build_many
from bench.states import Training, nbytes, tensors

SIZE = 2**20


@pytest.fixture
def training() -> Training:
    return Training(SIZE)


def flat(training: Training) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in peers.flat(training.state()).items()}


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_state_has_the_size_that_was_asked_for(training):
    assert 0.5 * SIZE < nbytes(training.state()) <= 1.1 * SIZE
    assert nbytes(tensors(100, SIZE)) == pytest.approx(SIZE, rel=0.01)


def test_what_a_line_saved_it_restores_into_another_model(training, tmp_path):
    line = EngineLine(tmp_path / "line")
    line.save_program(1, training)
    saved = flat(training)
    training.step()
    assert not same(flat(training), saved)
    line.restore_into(training)
    assert same(flat(training), saved)


@pytest.mark.parametrize("name", [peers.TORCH_SAVE, peers.SAFETENSORS, peers.DCP_SAVE])
def test_every_peer_saves_the_same_bytes(training, tmp_path, name):
    path = tmp_path / "peer"
    peers.blocking()[name](training.state(), path)
    written = sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir()))
    assert written >= nbytes(training.state())


def test_a_session_stepped_by_hand_saves_at_its_interval_and_measures_its_own_gate(training, tmp_path):
    with EngineSession(tmp_path / "line", training, every_steps=3) as ours:
        assert ours.next_step() >= 0  # step 0: nothing to save
        for _ in range(3):
            training.step()
            ours.next_step()
        ours.wait_durable()
        assert 0 < ours.gate_s < 1
    saved = list((tmp_path / "line").rglob("checkpoints/*.json"))
    assert [path.name.split("-")[0] for path in saved] == ["000000000003"]


def test_a_save_that_never_becomes_durable_is_an_error_and_no_figure(training, tmp_path):
    with EngineSession(tmp_path / "line", training, every_steps=2) as ours:
        ours.next_step()
        training.step()
        ours.next_step()
        ours._step = 4
        with pytest.raises(TimeoutError):
            ours.wait_durable(deadline_s=0.05)


def test_of_many_checkpoints_the_newest_is_decided_on(tmp_path):
    build_many(tmp_path / "line", 5)
    assert EngineLine(tmp_path / "line").decide().startswith("000000000005-")
