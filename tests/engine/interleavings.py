"""Two threads that take turns as told, act by act: every order in which two attempts can meet."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

T = TypeVar("T")
WAIT_S = 60


class Turns:
    """`order` says whose act is next; when one has ended, or `order` is used up, whoever is there goes on."""

    def __init__(self, order: Sequence[str]) -> None:
        self._order = list(order)
        self._changed = threading.Condition()
        self._here = dict[int, str]()
        self._acting: str | None = None
        self._running = set(order)
        self.taken = list[str]()

    @contextmanager
    def of(self, who: str) -> Generator[None]:
        """This thread is `who`, from its first act to its end."""
        self._here[threading.get_ident()] = who
        try:
            yield
        finally:
            with self._changed:
                self._running.discard(who)
                self._acting = None if self._acting == who else self._acting
                del self._here[threading.get_ident()]
                self._changed.notify_all()

    def act(self) -> None:
        """Called before each act: returns when it is this thread's turn. The act lasts until the thread's next call."""
        who = self._here.get(threading.get_ident())
        if who is None:
            return
        with self._changed:
            self._acting = None if self._acting == who else self._acting
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._acting is None and self._next(who), WAIT_S):
                raise AssertionError(f"{who} never got its turn after {self.taken}")
            if self._order:
                self._order.pop(0)
            self._acting = who
            self.taken.append(who)

    def _next(self, who: str) -> bool:
        while self._order and self._order[0] not in self._running:
            self._order.pop(0)
        return not self._order or self._order[0] == who

    def run(self, **actions: Callable[[], T]) -> dict[str, T | BaseException]:
        """What each action returned or raised."""
        outcomes = dict[str, "T | BaseException"]()
        self._running = set(actions)

        def one(who: str, action: Callable[[], T]) -> None:
            with self.of(who):
                try:
                    outcomes[who] = action()
                except BaseException as error:
                    outcomes[who] = error

        threads = [threading.Thread(target=one, args=each, daemon=True) for each in actions.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        return outcomes
