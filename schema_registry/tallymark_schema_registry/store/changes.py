"""What the store keeps and gives: changes with their numbers, and the errors of keeping them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from tallymark.errors import TallymarkError
from tallymark_schema_registry.catalog.records import Record, from_json, to_json


class Change(NamedTuple):
    """A record with its place in the order. ``by`` is the user, "" where none logs in."""

    number: int
    at_ms: int
    by: str
    record: Record


class NewText(NamedTuple):
    """The text that an id of a SchemaAdded means. ``is_twin``: the context has the content under
    another id already, and an import brought this one too."""

    context: str
    schema_id: int
    text: str
    is_twin: bool = False


class Turn(Protocol):
    """A transaction that has the lock of all writers. One of its methods must be called, once."""

    newer: Sequence[Change]
    """What the caller did not know."""

    def append(self, changes: Sequence[Change], texts: Sequence[NewText] = ()) -> None:
        """Write the changes, whose numbers follow those of ``newer``. Raises as the store's
        ``append``."""

    def give_up(self) -> None:
        """Let the next one have the lock."""


class Behind(Exception):
    """The store has changes that the caller does not know; nothing was written. It has its
    ``turn``: without the lock it would find itself behind again and again where others write."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(f"{len(turn.newer)} newer changes")
        self.turn = turn


class StoreFailed(TallymarkError):
    """The store could not be asked, or did not take what it was given; nothing was written."""


class OutcomeUnknown(StoreFailed):
    """The store went away while it committed: it may have written everything, or nothing."""


def row_of(change: Change) -> tuple[int, int, str, str]:
    """The row of the table ``changes``."""
    return change.number, change.at_ms, change.by, to_json(change.record)


def change_of(row: Sequence[Any]) -> Change:
    """The inverse of :func:`row_of`. StoreFailed where a newer program wrote the record."""
    number, at_ms, by, record = row
    try:
        return Change(number, at_ms, by, from_json(record))
    except ValueError as error:
        raise StoreFailed(f"change {number} of the registry's store is not understood") from error
