"""Where missing messages lie: offsets as far as they rise together with the sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, encode_stamp
from tallymark.protocol.records.batch import Record
from tallymark_audit.model.ranges import RangeSet
from tallymark_spark_jobs.reconcile.reading.evidence import joined_places, places_in
from tallymark_spark_jobs.reconcile.shapes.search import Identity, LogSpan

ONE, TWO = bytes.fromhex("aa" * 8), bytes.fromhex("bb" * 8)
PLACE = ("dc1", "t", 3)
WHO = Identity("t", 0, ONE.hex())


@dataclass
class Records:
    """A piece, as far as it is used."""

    held: list[Record]
    aborted: bool = False

    def records(self) -> list[Record]:
        return self.held


def record(offset: int, sequence: int | None, instance: bytes = ONE) -> Record:
    headers: tuple[tuple[str, bytes], ...] = ()
    if sequence is not None:
        headers = ((STAMP_HEADER, encode_stamp(Stamp(instance, 0, sequence, "web-1"))),)
    return Record(offset, 1, None, b"value", headers)


def found(*pieces: Records) -> list[tuple[int, int, int, int]]:
    wanted = {WHO: RangeSet([(5, 7), (19, 20)])}
    spans = [span for piece in pieces for _, span in places_in(PLACE, cast(Any, piece), wanted)]
    assert all(span[:3] == PLACE for span in spans)
    return [span[3:] for span in joined_places(spans)]


def test_places_name_offsets_as_far_as_they_rise_with_the_sequences() -> None:
    """Between 5 and 6 stands a message of another producer; 20 came before 19; 6 came again."""
    rows = [
        record(50, 5),
        record(51, 99, TWO),
        record(52, 6),
        record(53, 7),
        record(60, 20),
        record(61, 19),
        record(70, 8),
        record(80, 6),
        record(81, None),
    ]
    expected = [
        (50, 50, 5, 5),
        (52, 53, 6, 7),
        (60, 60, 20, 20),
        (61, 61, 19, 19),
        (80, 80, 6, 6),
    ]
    assert found(Records(rows)) == expected
    assert found(*(Records([one]) for one in rows)) == expected


def test_what_was_aborted_is_no_place_of_a_message() -> None:
    assert found(Records([record(50, 5)], aborted=True)) == []


def test_batches_that_follow_one_another_are_one_place() -> None:
    some = [LogSpan(*PLACE, 12, 13, 2, 3), LogSpan(*PLACE, 10, 11, 0, 1)]
    assert joined_places(some) == [LogSpan(*PLACE, 10, 13, 0, 3)]
