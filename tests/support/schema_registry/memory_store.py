"""The store of the registry in memory, for simulations of several nodes that share it.

It is what :class:`~tallymark_schema_registry.store.sql_store.SqlStore` is to a node; the same tests
hold for both. A simulation sets ``fault`` to make the next transaction fail as databases do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from virtual_loop import Blocked

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

Fault: TypeAlias = Literal["before", "lost", "stored", "late"]
"""``before``: it fails with nothing written. The others: the connection breaks at COMMIT, and
nothing was written, or everything, or the server is still about to write it: whoever takes the
lock next waits for that, and whoever only reads does not see it yet."""


class Database:
    """What nodes share."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.held: dict[tuple[str, int], str] = {}
        self.turn: MemoryTurn | None = None
        """Who has the lock."""
        self._late: tuple[Sequence[Change], Sequence[NewText]] | None = None

    def take_lock(self) -> None:
        """Whatever another transaction is about to write is written then. Blocked: another one has
        the lock."""
        if self.turn is not None:
            raise Blocked
        if self._late is not None:
            late, self._late = self._late, None
            self.write(*late)

    def write(self, changes: Sequence[Change], texts: Sequence[NewText]) -> None:
        """One transaction."""
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

    def write_late(self, changes: Sequence[Change], texts: Sequence[NewText]) -> None:
        """It will be written before the lock is given to anybody else."""
        self._late = changes, texts


class MemoryStore:
    """One node's connection to a :class:`Database`."""

    def __init__(self, database: Database | None = None, is_watched_cheaply: bool = True) -> None:
        self.is_watched_cheaply = is_watched_cheaply
        self.database = database or Database()
        self.fault: Fault | None = None
        self.is_down = False

    def close(self) -> None:
        """Nothing is held."""

    def load(self) -> Catalog:
        """All that the changes say."""
        self.ask()
        catalog = Catalog()
        for change in self.database.changes:
            catalog.apply(change.number, change.record)
        return catalog

    def append(self, after: int, changes: Sequence[Change], texts: Sequence[NewText] = ()) -> None:
        """As that of the store in SQL."""
        turn = self._begin(after)
        if turn.newer:
            raise Behind(turn)
        turn.append(changes, texts)

    def fence(self, after: int) -> Sequence[Change]:
        """As that of the store in SQL."""
        turn = self._begin(after)
        turn.give_up()
        return turn.newer

    def _begin(self, after: int) -> MemoryTurn:
        self.ask()
        self.database.take_lock()
        last = len(self.database.changes)
        if after > last:
            raise StoreFailed("an older copy has taken the place of the store")
        self.database.turn = MemoryTurn(self, self.database.changes[after:])
        return self.database.turn

    def end(self) -> None:
        """The process ends: it has no lock any more."""
        turn = self.database.turn
        if turn is not None and turn.store is self:
            turn.give_up()

    def since(self, number: int, limit: int = 1_000) -> list[Change]:
        """The changes after ``number``."""
        self.ask()
        return self.database.changes[number : number + limit]

    def texts(self, context: str, ids: Sequence[int]) -> dict[int, str]:
        """The texts of ids."""
        self.ask()
        there = {schema_id: self.database.held.get((context, schema_id)) for schema_id in ids}
        return {schema_id: text for schema_id, text in there.items() if text is not None}

    def unchanged(self, number: int) -> bool:
        """Whether ``number`` is that of the last change."""
        self.ask()
        return number == len(self.database.changes)

    def ask(self) -> None:
        """Raises StoreFailed while the database is away."""
        if self.is_down:
            raise StoreFailed("the database is away")


class MemoryTurn:
    """See :class:`~tallymark_schema_registry.store.changes.Turn`."""

    def __init__(self, store: MemoryStore, newer: Sequence[Change]) -> None:
        self.store = store
        self.newer = newer

    def append(self, changes: Sequence[Change], texts: Sequence[NewText] = ()) -> None:
        """As that of the store in SQL."""
        store = self.store
        self.give_up()
        store.ask()
        fault, store.fault = store.fault, None
        if fault == "before":
            raise StoreFailed("the disk is full")
        if fault == "late":
            store.database.write_late(changes, texts)
        elif fault != "lost":
            store.database.write(changes, texts)
        if fault is not None:
            raise OutcomeUnknown("the connection was lost")

    def give_up(self) -> None:
        """The lock is free."""
        assert self.store.database.turn is self
        self.store.database.turn = None
