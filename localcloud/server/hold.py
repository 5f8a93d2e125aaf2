"""Stands still after a given number of changes, so that a test can end a client at exactly that moment.

Each request that may change something is counted. The one that reaches the number takes effect, but its answer is
held; later changes wait before they take effect. Reads go on. What is held goes its way when it is released.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_READS = (":getIamPolicy", ":testIamPermissions", "/entries:list", "/entries:write")
"""POST requests that change no resource."""


class Hold:
    """Counts changes; armed, it stands still at one of them."""

    def __init__(self) -> None:
        self.changes = 0
        self._at: int | None = None
        self._released = asyncio.Event()
        self.holding = False

    def arm(self, after: int | None) -> None:
        """Count from 0 again, and stand still at the change of that number (None: never). Releases what is held."""
        self._released.set()
        self._released = asyncio.Event()
        self.changes, self._at, self.holding = 0, after, False

    async def before(self) -> bool:
        """Count a change; wait where it comes too late. Whether its answer is to be held."""
        self.changes += 1
        if self._at is None or self.changes < self._at:
            return False
        if self.changes == self._at:
            return True
        await self._released.wait()
        return False

    async def answer(self) -> None:
        """Hold the answer of the change at which it stands still."""
        self.holding = True
        await self._released.wait()


class HoldMiddleware:
    """Lets a `Hold` see every request."""

    def __init__(self, app: ASGIApp, hold: Hold) -> None:
        self._app = app
        self._hold = hold

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _changes(scope):
            await self._app(scope, receive, send)
            return
        is_last = await self._hold.before()

        async def speak(message: Message) -> None:
            if is_last and message["type"] == "http.response.start":
                await self._hold.answer()
            await send(message)

        await self._app(scope, receive, speak)


def _changes(scope: Scope) -> bool:
    path = str(scope["path"])
    return scope["method"] in _CHANGING and not path.startswith("/_localcloud") and not path.endswith(_READS)
