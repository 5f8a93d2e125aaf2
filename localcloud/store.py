"""Resources on disk: a SQLite table of JSON documents, each of them whole whenever the server is killed.

SQLite rather than a file a resource: one write-ahead log gives atomic changes over several documents (a job and its
operation), prefix listing in creation order, and nothing to sweep up after a SIGKILL. It is in the standard library.
"""

import json
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from localcloud.jsontypes import Json
from localcloud.kinds import Kind

_SCHEMA = """
CREATE TABLE IF NOT EXISTS resources (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    doc TEXT NOT NULL,
    UNIQUE (kind, name)
);
"""


def open_database(path: Path, schema: str) -> sqlite3.Connection:
    """A connection in write-ahead mode: a commit survives the death of this process.

    That of the machine it need not survive: nobody was promised that.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=OFF")
    database.executescript(schema)
    return database


class Store:
    """Documents by kind and name.

    Used from the server's event loop only, which is what makes read-modify-write safe.
    """

    def __init__(self, path: Path) -> None:
        self._database = open_database(path, _SCHEMA)

    def get(self, kind: Kind, name: str) -> Json | None:
        """A copy of the document, or None."""
        row = self._database.execute("SELECT doc FROM resources WHERE kind = ? AND name = ?", (kind, name)).fetchone()
        return json.loads(row[0]) if row else None

    def put(self, kind: Kind, name: str, doc: Json) -> None:
        """Create or replace; the place in listings stays that of the creation."""
        self._database.execute(
            "INSERT INTO resources (kind, name, doc) VALUES (?, ?, ?) "
            "ON CONFLICT (kind, name) DO UPDATE SET doc = excluded.doc",
            (kind, name, json.dumps(doc)),
        )

    def delete(self, kind: Kind, name: str) -> None:
        """Remove the document if it is there."""
        self._database.execute("DELETE FROM resources WHERE kind = ? AND name = ?", (kind, name))

    def names(self, kind: Kind, prefix: str = "") -> list[str]:
        """Names with that prefix, oldest first."""
        rows = self._database.execute(
            "SELECT name FROM resources WHERE kind = ? AND substr(name, 1, ?) = ? ORDER BY seq",
            (kind, len(prefix), prefix),
        )
        return [row[0] for row in rows]

    def list(self, kind: Kind, prefix: str = "") -> list[Json]:
        """Documents whose name has that prefix, oldest first."""
        rows = self._database.execute(
            "SELECT doc FROM resources WHERE kind = ? AND substr(name, 1, ?) = ? ORDER BY seq",
            (kind, len(prefix), prefix),
        )
        return [json.loads(row[0]) for row in rows]

    @contextmanager
    def transaction(self) -> Generator[None]:
        """All changes inside become visible together, or none does."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def clear(self) -> None:
        """Forget everything."""
        self._database.execute("DELETE FROM resources")

    def close(self) -> None:
        """Close the file."""
        self._database.close()
