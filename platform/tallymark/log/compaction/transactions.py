"""What a compaction has to know of transactions. Pure, but for :func:`aborted_in`.

All transactions that begin before the end of the map are over: a compaction stops at the last
stable offset. Records of an aborted one never were: they replace no other record of their key, and
go. A marker stays as long as a record of its transaction does, and then until its delete horizon,
so that a reader who has begun before that sees it. A pass reads the log from its start, so whether
records are left is known also where a transaction spans segments (KAFKA-8351).
"""

from __future__ import annotations

from collections.abc import Iterable

from tallymark.log.disk.files import Files
from tallymark.log.producers.aborted import SUFFIX, Aborted, decode_aborted
from tallymark.protocol.records.batch import BatchHeader


class Transactions:
    """The aborted transactions of a log, and which producers have records left in the one that a
    pass is in."""

    def __init__(self, aborted: Iterable[Aborted] = ()) -> None:
        self._by_marker = {entry.last_offset: entry for entry in aborted}
        self._by_producer: dict[int, list[Aborted]] = {}
        for entry in self._by_marker.values():
            self._by_producer.setdefault(entry.producer_id, []).append(entry)
        self._left: set[int] = set()

    def hide(self, header: BatchHeader) -> bool:
        """Whether the batch is of a transaction that was aborted."""
        return header.is_transactional and any(
            entry.first_offset <= header.base_offset < entry.last_offset
            for entry in self._by_producer.get(header.producer_id, ())
        )

    def keep(self, header: BatchHeader) -> None:
        """Records of the batch stay."""
        if header.is_transactional:
            self._left.add(header.producer_id)

    def end(self, header: BatchHeader) -> bool:
        """The pass comes to a marker. Whether records of its transaction are left."""
        left = header.producer_id in self._left
        self._left.discard(header.producer_id)
        return left

    def entry_of(self, marker: BatchHeader) -> Aborted | None:
        """The index entry of this marker, if it is of an abort."""
        return self._by_marker.get(marker.base_offset)


def aborted_in(files: Files, directory: str, first: int) -> Iterable[Aborted]:
    """The entries of all segments from base offset ``first`` on; those of the active one too: the
    marker of a transaction that began before it may be there."""
    for name in files.listdir(directory):
        base = name.removesuffix(SUFFIX)
        if base != name and base.isdigit() and int(base) >= first:
            yield from decode_aborted(files.read(f"{directory}/{name}"))
