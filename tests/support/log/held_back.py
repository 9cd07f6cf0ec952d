"""A disk in memory that holds one writer of a file back, so that another one may overtake it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tallymark.testing.memory_files import MemoryFiles

_CANNOT_OVERTAKE_S: Final = 0.2
"""So long a writer is held back where the other one waits for it."""


class HeldBackFiles(MemoryFiles):
    """See :meth:`overtake`. Else it is a :class:`MemoryFiles`."""

    def __init__(self) -> None:
        super().__init__()
        self._held: str | None = None
        self._is_held = threading.Event()
        self._go_on = threading.Event()

    def overtake(self, path: str, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Run ``first`` in a thread. When it knows what it writes to ``path``, and has written
        nothing of it, run ``second`` in another thread. ``first`` goes on when ``second`` is done,
        or cannot be done before it. Raises what they raise."""
        self._held = f"{path}.tmp"
        with ThreadPoolExecutor(2) as threads:
            one = threads.submit(first)
            assert self._is_held.wait(30), f"nothing was written to {path}"
            other = threads.submit(second)
            other.add_done_callback(lambda _: self._go_on.set())
            one.result()
            other.result()

    def remove(self, path: str) -> None:
        """The first step of :func:`~tallymark.log.disk.files.write_file`: its draft goes."""
        if path == self._held:
            self._held = None
            self._is_held.set()
            self._go_on.wait(_CANNOT_OVERTAKE_S)
        super().remove(path)
