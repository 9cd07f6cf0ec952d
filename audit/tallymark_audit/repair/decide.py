"""Which records of a portion are copied. Pure.

Left out are the records that are downstream already, and in a compacted topic those of which a
later record has the key: a copy would become the latest record of that key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.protocol.records.batch import Record
from tallymark_audit.repair.upstream import RecordId, UpstreamRecord, record_id


def superseded_in(mine: Mapping[RecordId, Record], behind: Iterable[Record]) -> set[RecordId]:
    """Those of ``mine``, all of one partition, of which a later record ``behind`` has the key,
    unless that one is copied too, or is the same message once more."""
    copied = {record.offset for record in mine.values()}
    by_key: dict[bytes | None, list[RecordId]] = {}
    for identity, record in mine.items():
        by_key.setdefault(record.key, []).append(identity)
    found: set[RecordId] = set()
    for record in behind:
        if record.key not in by_key or record.offset in copied:
            continue
        stamp = stamp_of(record.headers)
        again = record_id(stamp) if isinstance(stamp, Stamp) else None
        found |= {
            one for one in by_key[record.key] if mine[one].offset < record.offset and one != again
        }
    return found


def outdated(
    sources: Mapping[RecordId, UpstreamRecord], newest: Mapping[bytes, int]
) -> set[RecordId]:
    """Those of which downstream has a younger record of the key; ``newest``: its timestamps (ms)
    by key."""
    return {
        identity
        for identity, (_, record) in sources.items()
        if record.key is not None and newest.get(record.key, -1) > record.timestamp
    }


def to_copy(
    sources: Mapping[RecordId, UpstreamRecord],
    present: Collection[RecordId],
    superseded: Collection[RecordId],
) -> list[tuple[RecordId, UpstreamRecord]]:
    """What is left to copy, in the order upstream."""
    wanted = [
        (identity, source)
        for identity, source in sources.items()
        if identity not in present and identity not in superseded
    ]
    return sorted(wanted, key=lambda pair: (pair[1].partition, pair[1].record.offset))
