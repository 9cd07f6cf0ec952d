"""A visitor of the stack's own pages, so that its HTTP access logs have lines to publish."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

import httpx


class Visitor:
    """Gets the addresses in turn, a few times a second, until closed. What is not there yet is
    simply visited again."""

    def __init__(self, addresses: Sequence[str], pause_s: float = 0.15) -> None:
        self._addresses = addresses
        self._pause_s = pause_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._visit, name="visitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait for the visit in progress."""
        self._stopped.set()
        self._thread.join(10)

    def _visit(self) -> None:
        with httpx.Client(timeout=3.0, headers={"user-agent": "tallymark-demo"}) as client:
            for address in itertools.cycle(self._addresses):
                if self._stopped.wait(self._pause_s):
                    return
                try:
                    client.get(address)
                except httpx.HTTPError:
                    continue
