"""Following a log: every line once, late ones too, and an end."""

from datetime import timedelta

from ops.errors import UnreachableError
from ops.logs import follow, read
from ops.model import LogLine, State
from ops.text import line_text
from tests.unit.ops.fakes import NOON, World, execution, line


def end(world: World) -> None:
    world.runs.put(execution(state=State.SUCCEEDED))


def arrives(world: World, moment_s: float, *lines: LogLine) -> None:
    """At that moment, and not before, the log shows these lines."""
    world.clock.at[moment_s] = lambda: world.logs.stored.extend(lines)


def followed(world: World) -> list[str]:
    world.runs.put(execution())
    world.clock.at.setdefault(20.0, lambda: end(world))
    return [one.message for one in follow(world.cloud, execution(), world.say)]


def test_lines_that_were_there_and_lines_that_come_are_given_once_each(world: World):
    world.logs.stored = [line(1, 0), line(2, 1)]
    world.clock.at = {
        3.0: lambda: world.logs.stored.append(line(3, 3)),
        4.0: lambda: world.logs.stored.append(line(4, 4)),
    }
    assert followed(world) == ["line 1", "line 2", "line 3", "line 4"]


def test_lines_with_one_timestamp_are_all_given(world: World):
    world.logs.stored = [line(1, 1)]
    arrives(world, 2.0, line(2, 1), line(3, 1))
    assert followed(world) == ["line 1", "line 2", "line 3"]


def test_a_line_that_arrives_after_younger_ones_is_not_lost(world: World):
    world.logs.stored = [line(1, 0)]
    world.clock.at = {
        5.0: lambda: world.logs.stored.append(line(3, 5)),
        8.0: lambda: world.logs.stored.append(line(2, 2)),
    }
    assert followed(world) == ["line 1", "line 3", "line 2"]


def test_lines_that_arrive_after_the_end_are_waited_for(world: World):
    world.logs.stored = [line(1, 0)]
    world.clock.at[10.0] = lambda: end(world)
    world.clock.at[20.0] = lambda: None
    arrives(world, 14.0, line(2, 9.9, "the last words"))
    assert followed(world) == ["line 1", "the last words"]


def test_a_look_that_fails_in_the_middle_loses_and_repeats_nothing(world: World):
    world.logs.stored = [line(1, 0), line(2, 1)]
    world.logs.failing = [UnreachableError("Cloud Logging cannot be reached."), UnreachableError("nor now")]
    assert followed(world) == ["line 1", "line 2"]


def test_following_asks_only_for_what_may_be_new(world: World):
    world.logs.stored = [line(1, 0), line(2, 600)]
    followed(world)
    assert world.logs.asked_since[0] < NOON
    assert world.logs.asked_since[-1] == NOON + timedelta(seconds=595)


def test_reading_gives_the_log_as_it_is(world: World):
    world.logs.stored = [line(2, 1), line(1, 0)]
    assert [one.message for one in read(world.cloud, execution())] == ["line 1", "line 2"]


def test_a_line_is_severity_time_task_attempt_message():
    assert line_text(line(1, 1.5, "step 5/100")) == "INFO     2026-01-31T12:00:01.500Z 0/0  step 5/100"
    platform = LogLine("a", "system", NOON, "WARNING", "", "", "Terminating")
    assert line_text(platform) == "WARNING  2026-01-31T12:00:00.000Z -/-  Terminating"


def test_a_line_cannot_take_over_the_terminal():
    assert "\x1b" not in line_text(line(1, 0, "\x1b[2Jcleared\rover"))
    assert line_text(line(1, 0, "a\n\tb")).endswith("a\n\tb")
