"""Limits the TLS handshakes that are under way. Pure.

A handshake holds most of a megabyte until it ends (buffers of asyncio and OpenSSL), and for that a
client only has to send its first message: a thousand of them took 1 GB. So their number is bounded.
A good handshake takes round trips, not seconds: at the bound, the sender with the most handshakes
loses its oldest one, and the new one begins.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from tallymark.net.addresses import sender

MAX_PENDING: Final = 100

T = TypeVar("T")


class PendingHandshakes(Generic[T]):
    """The handshakes under way, by sender. ``T`` is one handshake."""

    def __init__(self, most: int = MAX_PENDING) -> None:
        self._most = most
        self._size = 0
        self._of: dict[str, OrderedDict[T, None]] = {}

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        return iter([one for held in self._of.values() for one in held])

    def begin(self, host: str, one: T) -> T | None:
        """The handshake ``one`` from the address ``host`` begins. A handshake that is returned is
        no longer counted, and the caller must abort it."""
        self._of.setdefault(sender(host), OrderedDict())[one] = None
        self._size += 1
        if self._size <= self._most:
            return None
        largest = max(self._of, key=lambda key: len(self._of[key]))
        oldest = next(iter(self._of[largest]))
        self._remove(largest, oldest)
        return oldest

    def end(self, host: str, one: T) -> None:
        """The handshake is over, or has failed. Idempotent."""
        key = sender(host)
        if one in self._of.get(key, ()):
            self._remove(key, one)

    def _remove(self, key: str, one: T) -> None:
        del self._of[key][one]
        self._size -= 1
        if not self._of[key]:
            del self._of[key]
