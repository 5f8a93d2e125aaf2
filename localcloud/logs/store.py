"""Log entries on disk: rows are only ever added, and read in the order of their time."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from localcloud.jsontypes import Json
from localcloud.resources import parse_timestamp, timestamp
from localcloud.store import open_database

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    project TEXT NOT NULL,
    doc TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS entries_by_time ON entries (project, time, id);
"""


class LogStore:
    """Entries of every project. Written from the event loop and from build threads."""

    def __init__(self, path: Path) -> None:
        self._database = open_database(path, _SCHEMA)
        self._lock = threading.Lock()

    def append(self, project: str, entry: Json) -> None:
        """Add one entry; `timestamp`, `receiveTimestamp` and `insertId` are filled in where they are missing."""
        now = timestamp()
        entry = {"timestamp": now, "receiveTimestamp": now, **entry}
        moment = timestamp(parse_timestamp(str(entry["timestamp"])))
        with self._lock:
            self._database.execute(
                "INSERT INTO entries (time, project, doc) VALUES (?, ?, ?)", (moment, project, json.dumps(entry))
            )

    def read(
        self,
        project: str,
        matches: Callable[[Json], bool],
        *,
        since: str = "",
        until: str = "",
        newest_first: bool = False,
    ) -> Iterator[Json]:
        """Entries that match, in the order of their time.

        `since` and `until` (inclusive, as `timestamp()` writes them) spare reading.
        """
        order = "DESC" if newest_first else "ASC"
        query = (
            "SELECT id, doc FROM entries WHERE project = ? AND time >= ? AND time <= ? "  # noqa: S608  # one of two constants
            f"ORDER BY time {order}, id {order}"
        )
        with self._lock:
            rows = self._database.execute(query, (project, since, until or "9")).fetchall()
        for number, doc in rows:
            entry: Json = {"insertId": f"{number:016x}", **json.loads(doc)}
            if matches(entry):
                yield entry

    def projects(self) -> list[str]:
        """Projects that have entries."""
        with self._lock:
            return [row[0] for row in self._database.execute("SELECT DISTINCT project FROM entries")]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._database.execute("DELETE FROM entries")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()
