"""A local cloud for a test: started before, stopped after."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from localcloud import client
from localcloud.jsontypes import Json
from localcloud.settings import HOST, Settings
from localcloud.settings import gpu_quota as quota_of


@dataclass(frozen=True)
class Cloud:
    """A running local cloud."""

    url: str
    port: int
    state_dir: Path
    pid: int

    def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """One request to its own API (`/_localcloud/...`)."""
        return client.ask(self.port, method, path, body)


@contextmanager
def running_cloud(
    state_dir: Path, port: int = 0, *, grace_s: float = 10.0, record: Path | None = None, gpu_quota: int | None = None
) -> Generator[Cloud]:
    """A local cloud over `state_dir`, on a free port unless one is named; it is stopped in the end.

    Raises:
        LocalCloudError: it does not start.
    """
    settings = Settings(state_dir=state_dir, port=port, record=record, grace_s=grace_s, gpu_quota=quota_of(gpu_quota))
    answer = client.start(settings)
    try:
        yield Cloud(f"http://{HOST}:{answer['port']}", int(answer["port"]), state_dir, int(answer["pid"]))
    finally:
        with suppress(client.LocalCloudError):
            client.stop(int(answer["port"]))
