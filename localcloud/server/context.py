"""What every handler may use: the parts of one running local cloud."""

from dataclasses import dataclass

from localcloud.build.builder import Builder
from localcloud.executor.engine import Executor
from localcloud.logs.store import LogStore
from localcloud.server.emulator import ObjectServer
from localcloud.server.hold import Hold
from localcloud.settings import HOST, Settings
from localcloud.store import Store


@dataclass(frozen=True)
class Cloud:
    """One running local cloud. `port` is the one really bound."""

    settings: Settings
    port: int
    store: Store
    logs: LogStore
    executor: Executor
    builder: Builder
    emulator: ObjectServer
    hold: Hold

    @property
    def url(self) -> str:
        """Where every endpoint lives."""
        return f"http://{HOST}:{self.port}"
