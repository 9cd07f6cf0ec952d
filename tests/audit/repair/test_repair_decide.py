"""Which records of a portion a repair copies."""

from __future__ import annotations

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, encode_stamp
from tallymark.protocol.records.batch import Record
from tallymark_audit.repair.decide import outdated, superseded_in, to_copy
from tallymark_audit.repair.upstream import RecordId, UpstreamRecord, record_id


def stamp(sequence: int) -> Stamp:
    return Stamp(b"instance", 0, sequence, "web")


def at(offset: int, key: bytes | None, sequence: int, timestamp: int = 0) -> Record:
    headers = ((STAMP_HEADER, encode_stamp(stamp(sequence))),)
    return Record(offset=offset, timestamp=timestamp, key=key, value=b"v", headers=headers)


def by_id(*records: tuple[int, Record]) -> dict[RecordId, Record]:
    return {record_id(stamp(sequence)): record for sequence, record in records}


def test_a_later_record_of_the_key_supersedes_the_missing_one() -> None:
    """A compacted topic keeps the latest record of each key: a repair that copied an older one
    would bring back what the application had overwritten."""
    mine = by_id((1, at(10, b"k", 1)), (2, at(11, b"other", 2)))
    behind = [at(10, b"k", 1), at(12, b"k", 7)]
    assert superseded_in(mine, behind) == {record_id(stamp(1))}


def test_what_is_copied_too_and_a_copy_of_itself_supersede_nothing() -> None:
    mine = by_id((1, at(10, b"k", 1)), (2, at(12, b"k", 2)))
    behind = [at(12, b"k", 2), at(13, b"k", 1)]
    assert superseded_in(mine, behind) == {record_id(stamp(2))}, "13 is a copy of the first"


def test_a_younger_record_downstream_makes_it_outdated() -> None:
    sources = {
        record_id(stamp(one)): UpstreamRecord(0, at(one, key, one, timestamp=5))
        for one, key in enumerate((b"k", b"other", None))
    }
    assert outdated(sources, {b"k": 6, b"other": 5}) == {record_id(stamp(0))}


def test_the_rest_is_copied_in_the_order_upstream() -> None:
    places = {1: (1, 5), 2: (0, 9), 3: (0, 3), 4: (0, 4)}
    sources = {
        record_id(stamp(one)): UpstreamRecord(partition, at(offset, b"k", one))
        for one, (partition, offset) in places.items()
    }
    chosen = to_copy(sources, {record_id(stamp(4))}, set())
    assert [identity for identity, _ in chosen] == [record_id(stamp(one)) for one in (3, 2, 1)]
