"""The claims of each cluster, from its audit topic as Spark has read it.

The decoding and the arithmetic (highest revision per reporter and cell, union across reporters,
``complete_through`` only without a hole) are the audit's own:
:func:`tallymark_audit.events.claim_book.fold`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tallymark.errors import RemoteProtocolError
from tallymark_audit.events.claim_book import ClaimBook


@dataclass(slots=True)
class Claims:
    """Of each cluster its claims and reporters; ``damaged`` values were no events: how many, and
    an example of why."""

    books: dict[str, ClaimBook] = field(default_factory=dict[str, ClaimBook])
    damaged: int = 0
    example: str = ""

    def book(self, cluster: str) -> ClaimBook:
        """The reports of the cluster; empty if there are none."""
        return self.books.setdefault(cluster, ClaimBook())


def read_claims(events: Iterable[tuple[str, bytes]], window_ms: int) -> Claims:
    """Fold (cluster, value) pairs of the audit topics, in any order. Claims about windows of
    another length count as damaged."""
    from tallymark_audit.events.event_checks import read_event

    claims = Claims()
    for cluster, value in events:
        try:
            event = read_event(value, window_ms)
        except RemoteProtocolError as error:
            claims.damaged += 1
            claims.example = claims.example or f"{cluster}: {error}"
            continue
        claims.book(cluster).add(event)
    return claims


def events_of(table: Any) -> Iterable[tuple[str, bytes]]:
    """(cluster, value) pairs of an Arrow table with these two columns, batch by batch."""
    for batch in table.to_batches():
        clusters, values = batch.column(0), batch.column(1)
        for row in range(batch.num_rows):
            yield clusters[row].as_py(), values[row].as_py() or b""
