"""Cancelling: the right execution, until it has really ended, and what remains of its work."""

import pytest

from ops.cancel import LIMIT_S, cancel
from ops.errors import MisconfiguredError, MissingError, RefusedError, UnreachableError
from ops.model import Durable, State
from tests.unit.ops.fakes import OUTPUTS, World, execution


def ends_after(world: World, seconds: float, state: State = State.CANCELLED) -> None:
    def on_cancel(name: str) -> None:
        world.clock.at[seconds] = lambda: world.runs.put(execution(name, state))

    world.runs.on_cancel = on_cancel


def test_the_only_running_execution_is_meant_when_none_is_named(world: World):
    world.runs.put(execution("job-old", State.SUCCEEDED), execution("job-one"))
    ends_after(world, 7.0)
    world.checkpoints.steps = {0: Durable(40)}
    assert cancel(world.cloud, None, world.say).name == "job-one"
    assert world.clock.elapsed_s >= 7.0
    assert world.said[-2:] == [
        "Execution job-one has ended: cancelled.",
        "Task 0: step 40 is durable; the next execution resumes there.",
    ]


def test_nothing_saved_and_not_known_are_told_apart(world: World):
    world.runs.put(execution(task_count=2))
    ends_after(world, 1.0)
    world.checkpoints.steps = {1: Durable(None, known=False, reason="Cloud Storage refused.")}
    world.runs.on_cancel = lambda name: world.runs.put(execution(name, State.CANCELLED, task_count=2))
    cancel(world.cloud, "job-one", world.say)
    assert world.said[-2:] == [
        "Task 0: nothing was saved; the next execution starts from the beginning.",
        "Task 1: the last durable step is not known. Cloud Storage refused.",
    ]


def test_the_full_resource_name_is_a_name_too(world: World):
    world.runs.put(execution())
    ends_after(world, 1.0)
    assert cancel(world.cloud, f"{OUTPUTS.job_id}/executions/job-one", world.say).name == "job-one"


@pytest.mark.parametrize("typed", ["projects/p/locations/l/jobs/other/executions/job-one", "Job One", "-x", ""])
def test_what_cannot_be_an_execution_of_this_job_is_refused_before_asking(world: World, typed: str):
    with pytest.raises(MisconfiguredError, match="does not name an execution"):
        cancel(world.cloud, typed, world.say)


def test_an_execution_that_has_ended_is_left_alone(world: World):
    world.runs.put(execution(state=State.FAILED))
    with pytest.raises(RefusedError, match=r"ended at 2026-01-31 13:00:00Z \(failed\).*checkpoints are kept"):
        cancel(world.cloud, "job-one", world.say)


def test_which_one_must_be_said_when_several_run(world: World):
    world.runs.put(execution("job-one"), execution("job-two"))
    with pytest.raises(RefusedError, match=r"2 executions are running: job-two, job-one\. None was cancelled"):
        cancel(world.cloud, None, world.say)


def test_when_nothing_runs_there_is_nothing_to_cancel(world: World):
    with pytest.raises(RefusedError, match="nothing is billed"):
        cancel(world.cloud, None, world.say)
    with pytest.raises(MissingError):
        cancel(world.cloud, "job-gone", world.say)


def test_an_execution_that_does_not_end_is_not_reported_as_ended(world: World):
    world.runs.put(execution())
    with pytest.raises(UnreachableError, match="may still be billed"):
        cancel(world.cloud, "job-one", world.say)
    assert world.clock.elapsed_s > LIMIT_S
