"""Fixtures of the local cloud's tests: one running cloud a test, and a small HTTP client for it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from localcloud.testing import Cloud, running_cloud

PROJECT, REGION = "local-project", "europe-west4"


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    """A fresh local cloud on a free port."""
    with running_cloud(tmp_path / "state") as running:
        yield running


@pytest.fixture
def call(cloud: Cloud) -> Iterator[Callable[..., httpx.Response]]:
    """`call(method, path, body)`: one request, its answer whatever the status."""
    with httpx.Client(base_url=cloud.url, timeout=60, trust_env=False) as client:

        def send(method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
            return (
                client.request(method, path, json=body, **more)
                if body is not None
                else client.request(method, path, **more)
            )

        yield send
