"""What was found out about a secret, remembered without the secret: credentials that were verified
at the cost of a password hash, for example.

The keys are keyed digests (HMAC-SHA256 under a key of this process), so a copy of the memory does
not hold what a client sent, and the time of a look-up reveals nothing about it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Value = TypeVar("Value")

REMEMBERED_SECONDS: Final = 900.0
MOST: Final = 1_000


class Remembered(Generic[Value]):
    """At most ``most`` values, those that were used last. One without a look-up for
    ``seconds`` is forgotten. Belongs to one thread. ``clock`` is monotonic, in seconds."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = REMEMBERED_SECONDS,
        most: int = MOST,
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most = most
        self._key = os.urandom(32)
        self._held: OrderedDict[bytes, tuple[Value, float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def digest(self, secret: bytes) -> bytes:
        """The key under which something is remembered."""
        return hmac.digest(self._key, secret, hashlib.sha256)

    def get(self, digest: bytes) -> Value | None:
        """What was put there, if its time has not passed."""
        found = self._held.get(digest)
        if found is None:
            return None
        value, until, end = found
        now = self._clock()
        if now >= until:
            del self._held[digest]
            return None
        self._held[digest] = value, min(now + self._seconds, end), end
        self._held.move_to_end(digest)
        return value

    def put(self, digest: bytes, value: Value, at_most: float = float("inf")) -> None:
        """Remember a value, however often it is used for ``at_most`` seconds."""
        now = self._clock()
        end = now + at_most
        self._held[digest] = value, min(now + self._seconds, end), end
        self._held.move_to_end(digest)
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._held.clear()
