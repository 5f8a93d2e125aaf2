"""The ledger of a checkpoint line: which step it calls durable."""

from ops.checkpoint_line import durable_from, line_prefix, newest_first

LEDGER = {
    "job-task-0/ledger/e0001-aa.json": {"execution": "one", "last_durable_step": 40, "resumed_from_step": None},
    "job-task-0/ledger/e0002-bb.json": {"execution": "one", "last_durable_step": 90, "resumed_from_step": 40},
    "job-task-0/ledger/e0003-cc.json": {"execution": "two", "last_durable_step": None, "resumed_from_step": 90},
    "job-task-0/ledger/e0004-dd.json": {"execution": "two", "last_durable_step": None, "resumed_from_step": None},
}


def durable(names, execution=None):
    return durable_from(newest_first(names), LEDGER.get, execution)


def test_attempts_are_ordered_by_epoch_as_a_number():
    names = ["l/ledger/e9999-aa.json", "l/ledger/e10000-bb.json", "l/latest.json", "l/ledger/e0001-cc.json.tmp"]
    assert newest_first(names) == ["l/ledger/e10000-bb.json", "l/ledger/e9999-aa.json"]


def test_an_attempt_that_saved_nothing_stands_on_what_it_resumed_from():
    assert durable(list(LEDGER)[:3]).step == 90


def test_an_attempt_killed_before_it_knew_anything_leaves_the_word_to_the_one_before():
    assert durable(LEDGER).step == 90


def test_a_torn_document_leaves_the_step_before_it_as_the_least_that_is_known():
    torn = "job-task-0/ledger/e0009-torn.json"
    assert str(durable([*LEDGER, torn])) == "step 90 or later"
    assert (durable([torn]).known, durable([torn]).step) == (False, None)


def test_an_execution_is_told_by_what_it_left_not_by_what_came_later():
    later = {"execution": "three", "last_durable_step": 500, "resumed_from_step": 90}
    ledger = {**LEDGER, "job-task-0/ledger/e0005-ee.json": later}
    assert durable_from(newest_first(ledger), ledger.get, "one").step == 90
    assert durable_from(newest_first(ledger), ledger.get, "three").step == 500


def test_an_execution_that_saved_nothing_stands_on_the_one_before():
    names = [name for name in LEDGER if "e0003" not in name]
    assert durable(names, "two").step == 90
    assert durable(list(LEDGER)[:1], "not begun").step == 40


def test_an_execution_is_not_called_finished_because_the_one_before_was():
    ledger = {
        "l/ledger/e0001-aa.json": {"execution": "one", "last_durable_step": 60, "reason": "finished"},
        "l/ledger/e0002-bb.json": {"execution": "two", "last_durable_step": None, "reason": "refused"},
    }
    names = newest_first(ledger)
    assert [str(durable_from(names, ledger.get, name)) for name in ("one", "two")] == ["step 60, finished", "step 60"]


def test_an_empty_line_is_known_to_have_none():
    found = durable([])
    assert (found.known, found.step, str(found)) == (True, None, "none")


def test_the_line_of_a_task_lies_beside_that_of_task_0():
    assert line_prefix("gs://bucket/job-task-0", 12) == ("bucket", "job-task-12/")
    assert line_prefix("gs://bucket/runs/a-task-b-task-0", 1) == ("bucket", "runs/a-task-b-task-1/")
