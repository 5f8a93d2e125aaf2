"""The mark by which an object says which stack made it."""

from __future__ import annotations

import re

import pytest

from infra.ownership import LABEL, described, mark, owned, owner_of


@pytest.mark.parametrize("stack", ["dev", "pr-12", "a_b"])
def test_a_name_that_a_label_can_hold_is_the_mark(stack: str) -> None:
    assert mark(stack) == stack


def test_names_that_differ_have_marks_that_differ_and_fit_into_a_label() -> None:
    names = ["Dev", "dev", "d.ev", "d-ev", "DEV", "x" * 63, "x" * 64, "x" * 100, "X" * 63]
    marks = [mark(name) for name in names]
    assert len({*marks}) == len(names)
    assert all(re.fullmatch("[a-z0-9_-]{1,63}", one) for one in marks)


@pytest.mark.parametrize("stack", ["dev", "My.Stack", "x" * 100])
def test_an_object_says_by_its_label_or_its_description_whose_it_is(stack: str) -> None:
    assert owner_of({"labels": owned({"app": "gpujob"}, stack)}) == mark(stack)
    assert owner_of({"userLabels": owned({}, stack)}) == mark(stack)
    assert owner_of({"description": described(stack)}) == mark(stack)
    assert owner_of({"description": described(stack, "Steps, job j.")}) == mark(stack)


@pytest.mark.parametrize(
    "document",
    [{}, {"labels": {"app": "gpujob"}}, {"labels": None, "description": "Steps, job j."}, {"labels": {LABEL: ""}}],
)
def test_what_says_nothing_is_nobodys(document: dict[str, object]) -> None:
    assert owner_of(document) == ""


def test_where_there_is_no_stack_nothing_is_added() -> None:
    assert owned({"a": "b"}, "") == {"a": "b"}
    assert (described("", "Text."), described("")) == ("Text.", None)
