"""What the store keeps and gives: changes with their numbers, and the errors of keeping them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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


class Behind(Exception):
    """The store has changes that the caller does not know; nothing was written. ``newer`` are the
    first of them."""

    def __init__(self, newer: Sequence[Change]) -> None:
        super().__init__(f"{len(newer)} newer changes")
        self.newer = newer


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
