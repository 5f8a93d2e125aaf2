"""Gives each test its own made-up cloud, or its own server for Google's clients."""

from collections.abc import Iterator

import pytest

from tests.unit.ops.fakes import World
from tests.unit.ops.google_stub import Stub, serving


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def google() -> Iterator[Stub]:
    with serving() as stub:
        yield stub
