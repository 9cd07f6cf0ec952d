"""The store of the registry in memory, for simulations of several nodes that share it.

It is what :class:`~tallymark_schema_registry.store.SqlStore` is to a node; the same tests hold for
both. A simulation may set ``fault`` to make the next call fail as databases do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.records import SchemaAdded, SchemaRemoved
from tallymark_schema_registry.store.changes import (
    Behind,
    Change,
    NewText,
    OutcomeUnknown,
    StoreFailed,
    change_of,
    row_of,
)

Fault = Literal["before", "lost", "stored"]
"""``before``: fails with nothing written. ``lost``, ``stored``: the connection breaks at COMMIT,
and nothing was written, or everything."""


class MemoryStore:
    """Nodes share ``changes`` and ``held`` of one :class:`MemoryStore`."""

    is_watched_cheaply = True

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.held: dict[tuple[str, int], str] = {}
        self.fault: Fault | None = None
        self.is_down = False

    def close(self) -> None:
        """Nothing is held."""

    def load(self) -> Catalog:
        """All that the changes say."""
        self._ask()
        catalog = Catalog()
        for change in self.changes:
            catalog.apply(change.number, change.record)
        return catalog

    def append(self, after: int, changes: Sequence[Change], texts: Sequence[NewText] = ()) -> None:
        """As that of the store in SQL."""
        self._ask()
        if after > len(self.changes):
            raise StoreFailed("an older copy has taken the place of the store")
        if after < len(self.changes):
            raise Behind(self.changes[after:])
        fault, self.fault = self.fault, None
        if fault == "before" and changes:
            raise StoreFailed("the disk is full")
        if fault != "lost":
            self._write(changes, texts)
        if fault in ("lost", "stored") and changes:
            raise OutcomeUnknown("the connection was lost")

    def since(self, number: int, limit: int = 1_000) -> list[Change]:
        """The changes after ``number``."""
        self._ask()
        return self.changes[number : number + limit]

    def texts(self, context: str, ids: Sequence[int]) -> dict[int, str]:
        """The texts of ids."""
        self._ask()
        there = {schema_id: self.held.get((context, schema_id)) for schema_id in ids}
        return {schema_id: text for schema_id, text in there.items() if text is not None}

    def unchanged(self, number: int) -> bool:
        """Whether ``number`` is that of the last change."""
        self._ask()
        return number == len(self.changes)

    def _ask(self) -> None:
        if self.is_down:
            raise StoreFailed("the database is away")

    def _write(self, changes: Sequence[Change], texts: Sequence[NewText]) -> None:
        new = {text[:2]: text.text for text in texts}
        for change in changes:
            record = change.record
            assert change.number == len(self.changes) + 1
            self.changes.append(change_of(row_of(change)))
            if isinstance(record, SchemaAdded):
                place = record.context, record.schema_id
                assert place not in self.held
                self.held[place] = new[place]
            elif isinstance(record, SchemaRemoved):
                del self.held[record.context, record.schema_id]
