"""Gives each test its own made-up cloud."""

import pytest

from tests.unit.ops.fakes import World


@pytest.fixture
def world() -> World:
    return World()
