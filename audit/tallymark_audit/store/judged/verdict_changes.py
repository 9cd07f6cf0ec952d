"""Whether any verdict has changed, from one row: readers that watch all verdicts read only this row
while nothing changes.

A writer of verdicts first writes a new mark, in the same transaction: on PostgreSQL two writers of
one kind wait for each other there, and not half-way. A mark only differs from the one before. A
snapshot shows it together with its verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar
from uuid import uuid4

from sqlalchemy import Connection, select

from tallymark_audit.store.schema.tables import meta
from tallymark_audit.store.schema.upsert import upsert

T = TypeVar("T")
KEY: Final = "verdicts_changed_by_"
LONGEST_MS: Final = 300_000
"""Answers are asked for again after this all the same: a program of before the mark, or a person
with SQL, leaves none."""


def note_change(connection: Connection, who: str) -> None:
    """Note that verdicts will be written or removed in this transaction. ``who``: the source, or
    another name of the writer."""
    upsert(connection, meta, [{"key": KEY + who, "value": uuid4().hex}])


def last_change(connection: Connection) -> str:
    """The marks of the last changes; empty where none is known."""
    query = select(meta.c.value).where(meta.c.key.startswith(KEY, autoescape=True))
    return " ".join(connection.scalars(query.order_by(meta.c.key)))


class Answers:
    """Answers that follow from verdicts alone, kept while no verdict changes and for ``longest_ms``
    at most. :meth:`look` comes first in every snapshot."""

    def __init__(self, longest_ms: int = LONGEST_MS) -> None:
        self._longest_ms = longest_ms
        self._change = ""
        self._since = 0
        self._kept: dict[Hashable, Any] = {}

    def look(self, connection: Connection, now: int) -> None:
        """Forget what no longer holds in this snapshot, at ``now`` (ms)."""
        change = last_change(connection)
        if change != self._change or not 0 <= now - self._since < self._longest_ms:
            self._kept.clear()
            self._change, self._since = change, now

    def of(self, question: Hashable, ask: Callable[[], T]) -> T:
        """The answer to a question, asked where it is not known. Every question is always asked in
        the same way."""
        if question not in self._kept:
            self._kept[question] = ask()
        found: T = self._kept[question]
        return found
