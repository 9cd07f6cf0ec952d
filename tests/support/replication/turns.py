"""Threads of which one at a time goes on, and a seed says which: so every order of their commands
can be tried, and tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from random import Random


class Turns:
    """Runs functions side by side. Each calls :meth:`wait` before each command."""

    def __init__(self, chances: Random) -> None:
        self._chances = chances
        self._changed = threading.Condition()
        self._waiting: set[str] = set()
        self._running = ""

    def wait(self, name: str) -> None:
        """Let the others go on, until it is this one's turn. Other threads pass."""
        if threading.current_thread().name != name:
            return
        with self._changed:
            self._waiting.add(name)
            self._running = ""
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._running == name)
            self._waiting.discard(name)

    def run(self, functions: Mapping[str, Callable[[], None]]) -> dict[str, BaseException | None]:
        """Run them to their ends; returns what each raised."""
        raised: dict[str, BaseException | None] = {}

        def go(name: str, function: Callable[[], None]) -> None:
            error: BaseException | None = None
            try:
                self.wait(name)
                function()
            except BaseException as caught:
                error = caught
            with self._changed:
                raised[name] = error
                self._running = ""
                self._changed.notify_all()

        threads = [
            threading.Thread(target=go, args=each, name=each[0], daemon=True)
            for each in functions.items()
        ]
        for thread in threads:
            thread.start()
        while len(raised) < len(threads):
            with self._changed:
                done = self._changed.wait_for(
                    lambda: not self._running and len(self._waiting) + len(raised) == len(threads),
                    timeout=60,
                )
                assert done, f"{self._running} hangs"
                if self._waiting:
                    self._running = self._chances.choice(sorted(self._waiting))
                    self._waiting.discard(self._running)
                    self._changed.notify_all()
        return raised
