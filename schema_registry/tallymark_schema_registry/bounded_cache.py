"""A cache whose size is bounded in bytes (or characters), not in entries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sized
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value", bound=object)


class BoundedCache(Generic[Key, Value]):
    """What was used last, as far as the sizes add up to ``capacity``. Thread-safe.

    ``largest``: what is larger than this is never taken in, so that one entry cannot push all
    others out.
    """

    def __init__(self, capacity: int, largest: int) -> None:
        self._capacity = capacity
        self._largest = largest
        self._held: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0
        """The sizes of what is held."""

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Key) -> Value | None:
        """What was put there, if it still is."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: Key, value: Value, sized: Sized) -> None:
        """Keep ``value``; it counts as large as ``sized`` is long."""
        size = len(sized)
        if size > self._largest:
            return
        with self._lock:
            before = self._held.pop(key, None)
            self._held[key] = value, size
            self.size += size - (before[1] if before else 0)
            while self.size > self._capacity:
                _, (_, gone) = self._held.popitem(last=False)
                self.size -= gone

    def drop(self, key: Key) -> None:
        """Hold it no more, if it is held."""
        with self._lock:
            gone = self._held.pop(key, None)
            self.size -= gone[1] if gone else 0

    def clear(self) -> None:
        """Hold nothing."""
        with self._lock:
            self._held.clear()
            self.size = 0
