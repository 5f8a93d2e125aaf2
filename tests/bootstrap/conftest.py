"""The bootstrap's program, run once against Pulumi's mocks."""

from __future__ import annotations

import runpy

import pytest

from tests.bootstrap.acme import TREE
from tests.infra.conftest import Registered, run


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Registered:
    config = {
        "repository": "acme/gpujob",
        "repositoryId": "123456789",
        "devProject": "acme-dev",
        "prodProject": "acme-prod",
        "pullRequestProject": "acme-requests",
    }
    program = lambda: runpy.run_path(str(TREE / "bootstrap" / "__main__.py"), run_name="__main__")  # noqa: E731
    return run(monkeypatch, program, namespace="gpujob-bootstrap", **config)
