"""Answers by request, as the bytes that were sent. Pure: it knows no clock, loop or socket.

An answer is void as soon as a change touches one of its tags. One that was computed before such a
change and comes to be stored after it is void as well, so :meth:`AnswerMemory.put` gets how many
changes had been seen when the request arrived.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from tallymark_schema_registry.web.front.tags import Tag
from tallymark_schema_registry.web.metrics.counts import Tally

CAPACITY: Final = 48 << 20
"""Bytes of all answers."""
LARGEST: Final = 4 << 20
"""Bytes of one answer; a larger one would push many others out."""
_OVERHEAD: Final = 850
"""Bytes that an entry takes beside its texts: the objects that hold them and its places in tables.
"""
_OF_TAG: Final = 80
_TAGS_KEPT: Final = 20_000
"""Tags whose last change is known one by one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``begin`` is the status line, ``rest`` everything behind the header ``date``. ``logged`` is
    the part of the line in the access log that is always the same. ``asks``: the store must be
    asked before it is given."""

    begin: bytes
    rest: bytes
    logged: str
    asks: bool
    tags: tuple[Tag, ...]
    tally: Tally

    @property
    def size(self) -> int:
        """Bytes, without the key's."""
        texts = len(self.begin) + len(self.rest) + len(self.logged)
        return texts + _OVERHEAD + _OF_TAG * len(self.tags)


class AnswerMemory:
    """Belongs to one event loop. The answers used last, as far as their sizes add up to
    ``capacity``."""

    def __init__(self, capacity: int = CAPACITY, largest: int = LARGEST) -> None:
        self.changes = 0
        """How often answers were dropped."""
        self.size = 0
        """Bytes of what is held."""
        self._capacity = capacity
        self._largest = largest
        self._held: OrderedDict[Hashable, Answer] = OrderedDict()
        self._keys: dict[Tag, set[Hashable]] = {}
        self._touched: OrderedDict[Tag, int] = OrderedDict()
        self._all_touched = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Hashable) -> Answer | None:
        """The answer, if it is still the right one."""
        answer = self._held.get(key)
        if answer is not None:
            self._held.move_to_end(key)
        return answer

    def put(self, key: Hashable, answer: Answer, since: int) -> bool:
        """Keep an answer to a request that arrived when :attr:`changes` was ``since``. False where
        it may be void already, or is too large."""
        if answer.size > self._largest or since < self._all_touched:
            return False
        if any(self._touched.get(tag, 0) > since for tag in answer.tags):
            return False
        self._remove(key)
        self._held[key] = answer
        self.size += answer.size
        for tag in answer.tags:
            self._keys.setdefault(tag, set()).add(key)
        while self.size > self._capacity:
            self._remove(next(iter(self._held)))
        return True

    def drop(self, tags: Iterable[Tag]) -> None:
        """Something has changed that ``tags`` stand for."""
        self.changes += 1
        for tag in tags:
            self._touched[tag] = self.changes
            self._touched.move_to_end(tag)
            for key in self._keys.pop(tag, ()):
                self._remove(key)
        while len(self._touched) > _TAGS_KEPT:
            self._all_touched = self._touched.popitem(last=False)[1]

    def clear(self) -> None:
        """Everything may have changed."""
        self.changes += 1
        self._all_touched = self.changes
        self.size = 0
        self._held.clear()
        self._keys.clear()
        self._touched.clear()

    def _remove(self, key: Hashable) -> None:
        answer = self._held.pop(key, None)
        if answer is None:
            return
        self.size -= answer.size
        for tag in answer.tags:
            keys = self._keys.get(tag)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self._keys[tag]
