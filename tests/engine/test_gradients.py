"""Gradients that no optimizer has used yet are part of the state; those left over are not."""

from __future__ import annotations

import torch

from tests.engine.loops import Loop, MicroSteps, same, steps_on


def test_a_stop_in_the_middle_of_an_accumulation_loses_no_gradient(tmp_path):
    truth = MicroSteps().run(tmp_path / "truth")
    MicroSteps().run(tmp_path / "line", stop_at=6)  # one micro-batch into the third group
    assert steps_on(tmp_path / "line") in ([6], [7])  # the boundary before the stop, or the next if it comes at once
    assert same(MicroSteps().run(tmp_path / "line"), truth)


def test_half_accumulated_gradients_are_part_of_the_state(tmp_path):
    truth = MicroSteps().run(tmp_path / "truth")
    MicroSteps().run(tmp_path / "line", every=4, kill_at=11)
    assert steps_on(tmp_path / "line") == [4, 8]  # one and two micro-batches into a group
    assert same(MicroSteps().run(tmp_path / "line"), truth)


class Delayed(Loop):
    """Each update uses the gradients of the step before."""

    def body(self, step: int) -> None:
        if step:
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.backward()


def test_gradients_that_the_next_step_will_use_come_back_with_the_weights(tmp_path):
    truth = Delayed().run(tmp_path / "truth")
    Delayed().run(tmp_path / "line", every=5, kill_at=8)
    resumed = Delayed()
    resumed.backward()  # gradients of its own, which the checkpoint does not know
    assert same(resumed.run(tmp_path / "line"), truth)


class OptimizerPerLayer(Loop):
    def __init__(self) -> None:
        super().__init__()
        first, last = self.model[0], self.model[3]
        self.optimizer = {"a": torch.optim.Adam(first.parameters()), "b": torch.optim.Adam(last.parameters())}


class Unused(OptimizerPerLayer):
    """A second optimizer's parameters get gradients that it never uses, some of them zero."""

    def body(self, step: int) -> None:
        self.backward()
        self.optimizer["a"].step()
        self.optimizer["a"].zero_grad(set_to_none=step % 2 == 0)
        if step == 10:
            self.optimizer["b"].step()


def test_an_optimizer_that_does_not_use_its_gradients_keeps_nothing_from_being_saved(tmp_path):
    truth = Unused().run(tmp_path / "truth")
    Unused().run(tmp_path / "line", every=1, kill_at=6)
    assert max(steps_on(tmp_path / "line")) == 6
    Unused().run(tmp_path / "line", stop_at=8)
    assert max(steps_on(tmp_path / "line")) == 9
    assert same(Unused().run(tmp_path / "line"), truth)


def test_a_stop_is_heard_though_gradients_were_there_before_the_session(tmp_path):
    loop = Loop()
    loop.backward()
    loop.run(tmp_path, stop_at=7)
    assert steps_on(tmp_path) == [8]


class TakingTurns(OptimizerPerLayer):
    """Two optimizers that step alternately and leave their gradients lying about."""

    def body(self, step: int) -> None:
        chosen = self.optimizer["a" if step % 2 else "b"]
        chosen.zero_grad()
        x = torch.randn(6, 4)
        loss = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
        parameters = chosen.param_groups[0]["params"]
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient
        chosen.step()


def test_gradients_left_over_from_another_optimizers_last_step_do_not_keep_a_boundary_from_being_saved(tmp_path):
    truth = TakingTurns().run(tmp_path / "truth")
    TakingTurns().run(tmp_path / "line", every=1, kill_at=7)
    assert max(steps_on(tmp_path / "line")) == 7
    assert same(TakingTurns().run(tmp_path / "line"), truth)
