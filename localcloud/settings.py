"""What one local cloud is told at its start, and where its files lie."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

DEFAULT_PORT = 8790
DEFAULT_STATE_DIR = Path("build/localcloud")
HOST = "127.0.0.1"
"""The only address ever bound: nothing outside this machine can reach a server that checks no credentials."""


def gpu_quota(each: int | None = None) -> dict[str, int]:
    """GPUs without zonal redundancy that one project may use in one region.

    `each` of every type; without it what established projects have.
    """
    usual = {"nvidia-l4": 3, "nvidia-rtx-pro-6000": 1}
    return usual if each is None else dict.fromkeys(usual, each)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One server's settings. `port` 0 asks the system for a free one."""

    state_dir: Path
    """Absolute, wherever it was named from: tasks get paths below it, and have working directories of their own."""
    port: int = DEFAULT_PORT
    record: Path | None = None
    """File that gets one JSON line a request."""
    grace_s: float = 10.0
    """Between SIGTERM and SIGKILL. Cloud Run gives 10 s."""
    gpu_quota: dict[str, int] = field(default_factory=gpu_quota)
    gpu_timeout_ceiling_s: int = 168 * 3600
    """Longest task timeout of a GPU job.

    Google's pages disagree (1 h, 12 h, 168 h), so the general ceiling is the default.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "state_dir", self.state_dir.absolute())

    def to_json(self) -> str:
        """For the server's own process."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """What `to_json` wrote."""
        fields = json.loads(text)
        record = fields.pop("record")
        return cls(state_dir=Path(fields.pop("state_dir")), record=Path(record) if record else None, **fields)

    @property
    def state_file(self) -> Path:
        """Resources, policies, operations and attempts."""
        return self.state_dir / "state.sqlite"

    @property
    def log_file(self) -> Path:
        """Cloud Logging entries."""
        return self.state_dir / "logs.sqlite"

    @property
    def buckets_dir(self) -> Path:
        """One directory a bucket; objects are plain files."""
        return self.state_dir / "buckets"

    @property
    def images_dir(self) -> Path:
        """One directory an image digest: its file system as the Dockerfile copied it."""
        return self.state_dir / "images"

    @property
    def attempts_dir(self) -> Path:
        """One directory a running attempt; gone when it ends."""
        return self.state_dir / "attempts"

    @property
    def server_file(self) -> Path:
        """Process id and port of the server that owns this state."""
        return self.state_dir / "server.json"

    @property
    def lock_file(self) -> Path:
        """Locked while a server owns this state."""
        return self.state_dir / "lock"

    @property
    def server_log(self) -> Path:
        """Standard output and error of a server in the background."""
        return self.state_dir / "server.log"
