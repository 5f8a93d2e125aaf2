"""Starting an execution: one, and only one, whatever the API answers."""

import pytest

from ops.errors import RefusedError, UnreachableError
from ops.model import State
from ops.start import PAUSES_S, start
from tests.unit.ops.fakes import World, execution

BUSY = UnreachableError("Cloud Run cannot run job job now (503: unavailable).")


def test_arguments_are_passed_on_in_order(world: World):
    assert start(world.cloud, ["countdown", "--steps", "9"], world.say) == "job-new"
    assert world.runs.started == [["countdown", "--steps", "9"]]


def test_a_passing_503_is_asked_again(world: World):
    world.runs.start_errors = [BUSY, BUSY]
    assert start(world.cloud, [], world.say) == "job-new"
    assert world.clock.elapsed_s == PAUSES_S[0] + PAUSES_S[1]
    assert len(world.runs.started) == 1


def test_a_503_after_which_an_execution_appeared_is_not_asked_again(world: World):
    world.runs.put(execution("job-old", State.SUCCEEDED))
    world.runs.start_errors = [BUSY]
    world.runs.on_start_error = lambda: world.runs.put(execution("job-appeared"))
    assert start(world.cloud, [], world.say) == "job-appeared"
    assert world.runs.started == []


def test_a_503_that_stays_ends_in_the_error(world: World):
    world.runs.start_errors = [BUSY] * (len(PAUSES_S) + 1)
    with pytest.raises(UnreachableError):
        start(world.cloud, [], world.say)
    assert world.runs.started == []


def test_a_second_execution_is_refused_while_one_runs(world: World):
    world.runs.put(execution("job-one", State.RUNNING))
    with pytest.raises(RefusedError, match=r"job-one .*has not ended.*gpujob cancel job-one"):
        start(world.cloud, [], world.say)
    assert world.runs.started == []
    assert start(world.cloud, [], world.say, alongside=True) == "job-new"
