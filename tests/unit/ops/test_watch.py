"""Watching an execution: each change is said once, and a bad network does not end the watch."""

import pytest

from ops.errors import NotSucceededError, UnreachableError
from ops.model import State
from ops.watch import Snapshot, changes, require_success, watch
from tests.unit.ops.fakes import World, execution, task

GONE = UnreachableError("Cloud Run cannot be reached.")


def snapshot(state: State, *tasks) -> Snapshot:
    return Snapshot(execution(state=state), tasks)


def test_nothing_new_is_nothing_said():
    same = snapshot(State.RUNNING, task())
    assert list(changes(same, same)) == []


def test_an_attempt_that_ended_is_said_with_what_its_code_means():
    before = snapshot(State.RUNNING, task(attempt=0))
    after = snapshot(State.RUNNING, task(attempt=1, exit_code=143))
    assert list(changes(before, after)) == [
        "task 0: attempt 0 ended, exit code 143: stopped by the platform, resumable",
        "task 0: attempt 1 running, 2 retries left",
    ]


def test_a_kill_without_notice_is_said_by_its_signal():
    before = snapshot(State.RUNNING, task(attempt=1))
    after = snapshot(State.RUNNING, task(attempt=2, signal=9))
    assert "task 0: attempt 1 ended, killed by SIGKILL" in list(changes(before, after))


def test_the_last_attempts_result_is_not_laid_at_the_door_of_the_one_before():
    before = snapshot(State.RUNNING, task(attempt=0))
    after = snapshot(State.RUNNING, task(state=State.SUCCEEDED, attempt=1, exit_code=0))
    assert list(changes(before, after)) == [
        "task 0: attempt 0 ended, between two looks; the log says how",
        "task 0: succeeded in attempt 1",
    ]


def test_watch_says_the_whole_story_and_ends_with_the_execution(world: World):
    world.runs.put(execution(state=State.WAITING))
    world.runs.task_lists["job-one"] = [task(state=State.WAITING)]

    def become(state: State, *tasks) -> None:
        world.runs.put(execution(state=state))
        world.runs.task_lists["job-one"] = list(tasks)

    world.clock.at = {
        2.0: lambda: become(State.RUNNING, task()),
        5.0: lambda: become(State.RUNNING, task(attempt=1, exit_code=75)),
        8.0: lambda: become(State.SUCCEEDED, task(state=State.SUCCEEDED, attempt=1, exit_code=0)),
    }
    assert watch(world.cloud, "job-one", world.say).state is State.SUCCEEDED
    assert world.said == [
        "12:00:00 job-one: waiting",
        "12:00:02 task 0: attempt 0 running, 3 retries left",
        "12:00:02 job-one: running",
        "12:00:05 task 0: attempt 0 ended, exit code 75: handed off before the timeout, resumable",
        "12:00:05 task 0: attempt 1 running, 2 retries left",
        "12:00:08 task 0: succeeded in attempt 1",
        "12:00:08 job-one: succeeded",
    ]


def test_watch_outlives_a_network_that_is_down_for_minutes(world: World):
    world.runs.put(execution(state=State.SUCCEEDED))
    world.runs.failing = [GONE] * 6
    assert watch(world.cloud, "job-one", world.say).state is State.SUCCEEDED
    assert len([said for said in world.said if "Trying again" in said]) == 1


def test_watch_gives_up_on_a_network_that_stays_down(world: World):
    world.runs.failing = [GONE] * 1000
    with pytest.raises(UnreachableError):
        watch(world.cloud, "job-one", world.say)


@pytest.mark.parametrize(("state", "word"), [(State.FAILED, "failed"), (State.CANCELLED, "was cancelled")])
def test_only_success_is_success(state: State, word: str):
    require_success(execution(state=State.SUCCEEDED))
    with pytest.raises(NotSucceededError, match=f"job-one {word}: Task 0 gave up. Checkpoints"):
        require_success(execution(state=state, message="Task 0 gave up."))
