"""Read a journal: whose it is, and the books of the run that wrote it. Layout: :mod:`.layout`."""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from tallymark_audit.reporters.books.tally import ReporterIdentity, Tally
from tallymark_audit.reporters.journal import layout
from tallymark_audit.reporters.journal.replay import BadJournalError, Books, Journaled, replay


def read(data: bytes | memoryview) -> Journaled:
    """The books in a journal's bytes. BadJournalError: see there."""
    view = memoryview(data)
    cluster, identity, more, position = _read_header(view)
    if identity.kind == "consumer":
        # Here, since a producer needs none of it.
        from tallymark_audit.reporters.journal.consumer_reading import replayed

        return replayed(cluster, identity, more, view, position)
    books = Books(Tally(identity))
    replay(books, view, position)
    return Journaled(cluster, books.tally)


def _read_header(view: memoryview) -> tuple[str, ReporterIdentity, dict[str, Any], int]:
    if len(view) < layout.PREFIX_FIELDS.size:
        raise BadJournalError("too short for a journal")
    magic, length, crc = layout.PREFIX_FIELDS.unpack_from(view)
    end = layout.PREFIX_FIELDS.size + length
    text = bytes(view[layout.PREFIX_FIELDS.size : end])
    if magic != layout.MAGIC or len(text) != length or crc32(text) != crc:
        raise BadJournalError("no journal of a version that is known here")
    try:
        raw: dict[str, Any] = json.loads(text)
        more = {name: raw.pop(name) for name in raw.keys() & layout.OF_CONSUMERS}
        return raw.pop("cluster"), ReporterIdentity(**raw), more, end
    except (ValueError, KeyError, TypeError) as error:
        raise BadJournalError(f"the identity makes no sense: {error!r}") from error
