"""The garbage collector is off while somebody needs it to be, and never longer."""

from __future__ import annotations

import gc
import os
import threading

import pytest

from app.checkpoint import collector


@pytest.fixture(autouse=True)
def is_on_before_and_after():
    gc.enable()
    yield
    assert gc.isenabled()


def in_another_thread(begun: threading.Event, go_on: threading.Event) -> threading.Thread:
    def rest() -> None:
        with collector.resting():
            begun.set()
            go_on.wait()

    thread = threading.Thread(target=rest)
    thread.start()
    begun.wait()
    return thread


def test_it_rests_until_the_last_of_those_that_overlap_has_ended():
    begun, go_on = threading.Event(), threading.Event()
    other = in_another_thread(begun, go_on)
    with collector.resting():
        assert not gc.isenabled()
    assert not gc.isenabled()
    go_on.set()
    other.join()


def test_one_that_the_program_switched_off_stays_off():
    gc.disable()
    with collector.resting(), collector.resting():
        pass
    assert not gc.isenabled()
    gc.enable()


def test_a_child_that_is_forked_meanwhile_has_it_on():
    """A data loader's workers are forked by the training thread while the saver's makes a manifest."""
    begun, go_on = threading.Event(), threading.Event()
    other = in_another_thread(begun, go_on)
    child = os.fork()
    if child == 0:
        is_on = gc.isenabled()
        with collector.resting():
            rests = not gc.isenabled()
        os._exit(0 if is_on and rests and gc.isenabled() else 1)
    _, status = os.waitpid(child, 0)
    go_on.set()
    other.join()
    assert os.waitstatus_to_exitcode(status) == 0
