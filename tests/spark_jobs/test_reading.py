"""Reading a span from a scripted broker: exact ends, odd batches, logs that change meanwhile."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hostile_batches import bomb, garbage

from tallymark.errors import CODES, CorruptMessageError, KafkaError, UserError
from tallymark.protocol.records.batch import Batch, encode_batch, place_batch, split_batches
from tallymark_spark_jobs.source import damage, fetching
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.reading import Damage, DamagedError, Expired, Piece, read_span


def batch(base: int, count: int) -> Batch:
    rows = [(None, b"%d" % (base + n), (), 1_000 + n) for n in range(count)]
    (made,) = split_batches(encode_batch(rows, base_offset=base))
    return made


@dataclass
class Fetched:
    high_watermark: int
    batches: Sequence[Batch]
    next_offset: int
    last_epoch: int = 0
    left_out: Sequence[Batch] = ()


@dataclass
class Broker:
    """Answers with the batches from the asked offset on, ``at_once`` at a time."""

    batches: list[Batch]
    at_once: int = 1
    errors: list[KafkaError] = field(default_factory=list[KafkaError])
    asked: list[int] = field(default_factory=list[int])

    def fetch(self, topic: str, partition: int, offset: int, **limits: int) -> Fetched:
        self.asked.append(offset)
        if self.errors:
            raise self.errors.pop(0)
        end = max((one.header.next_offset for one in self.batches), default=0)
        some = [one for one in self.batches if one.header.next_offset > offset][: self.at_once]
        return Fetched(end, some, some[-1].header.next_offset if some else offset)


def pieces_of(found: list[Piece] | Damage | Expired) -> list[Piece]:
    assert isinstance(found, list)
    return found


def offsets(broker: Broker, start: int, end: int) -> list[int]:
    reads = read_span(broker, Span("t", 0, start, end))
    pieces = [piece for some in reads for piece in pieces_of(some)]
    return [record.offset for piece in pieces for record in piece.records()]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "STALLED_SECONDS", 0.05)


@pytest.mark.parametrize("at_once", [1, 3])
def test_start_and_end_may_cut_through_batches(at_once: int) -> None:
    broker = Broker([batch(0, 10), batch(10, 10), batch(20, 10)], at_once)
    assert offsets(broker, 3, 24) == list(range(3, 24))
    assert offsets(broker, 0, 30) == list(range(30))


def test_a_piece_has_the_columns_of_its_records_within_the_span() -> None:
    (pieces,) = read_span(Broker([batch(0, 10)]), Span("t", 0, 3, 6))
    (piece,) = pieces_of(pieces)
    assert list(piece.columns.offsets) == [3, 4, 5]
    assert piece.columns.values() == [b"3", b"4", b"5"]
    assert piece.columns.timestamps == [1_003, 1_004, 1_005]
    assert [record.value for record in piece.records()] == [b"3", b"4", b"5"]


def test_it_stops_at_the_end_and_asks_no_further() -> None:
    broker = Broker([batch(0, 10), batch(10, 10)])
    assert offsets(broker, 0, 10) == list(range(10))
    assert broker.asked == [0]


def test_holes_that_compaction_left_are_passed() -> None:
    broker = Broker([batch(0, 5), batch(40, 5)])
    assert offsets(broker, 0, 45) == [*range(5), *range(40, 45)]
    assert offsets(broker, 0, 30) == list(range(5))


def test_a_batch_that_cannot_be_read_ends_the_span_after_what_stands_before_it() -> None:
    """One batch with a broken CRC ended the whole reconciliation: no verdict of anything."""
    broken = CorruptMessageError("t", 0, 10, "batch at offset 10 has CRC 0x1, its bytes 0x2")
    broker = Broker([batch(0, 10), batch(10, 10)])
    reads = read_span(broker, Span("t", 0, 0, 20))
    assert [
        record.offset for piece in pieces_of(next(reads)) for record in piece.records()
    ] == list(range(10))
    broker.errors = [broken] * fetching.TRIES
    with pytest.raises(DamagedError, match=r"t-0 cannot be read from offset 10 on: .*CRC") as found:
        next(reads)
    assert (found.value.offset, found.value.since) == (10, 1_009)
    assert "failOnCorruptBatch=false" in str(found.value)


def test_what_was_damaged_on_the_way_is_fetched_again() -> None:
    broker = Broker([batch(0, 10)], errors=[CorruptMessageError("t", 0, 0, "CRC")])
    assert offsets(broker, 0, 10) == list(range(10))


def nonsense(offset: int, count: int = 10) -> Batch:
    """A producer sent garbage: its CRC is right."""
    room = bytearray(garbage(offset, count=count, last_delta=count - 1))
    place_batch(room, 0, offset, 0)
    (found,) = split_batches(bytes(room))
    return found


def read(
    broker: Broker, start: int, end: int, passes: bool = True
) -> tuple[list[int], list[Damage]]:
    found = list(read_span(broker, Span("t", 0, start, end), passes))
    damaged = [one for one in found if isinstance(one, Damage)]
    lists = [one for one in found if isinstance(one, list)]
    return [
        record.offset for some in lists for piece in some for record in piece.records()
    ], damaged


@pytest.mark.parametrize("at_once", [1, 5])
def test_what_stands_behind_a_batch_that_does_not_decode_is_read(at_once: int) -> None:
    """Nothing behind it in the same range of offsets was counted, though all of it was whole."""
    broker = Broker([batch(0, 10), nonsense(10), nonsense(20), batch(30, 10)], at_once)
    offsets_, (told,) = read(broker, 0, 40)
    assert offsets_ == [*range(10), *range(30, 40)]
    assert told[:2] == (10, 30)
    assert (told.since, told.until) == (1_009, 1_009)
    (told,) = read(broker, 15, 25)[1]
    assert told[:2] == (15, 25), "of a span that begins and ends in it"
    assert read(broker, 5, 8) == ([5, 6, 7], [])


def test_a_batch_that_does_not_decode_is_named_unless_it_may_be_passed_over() -> None:
    """What stands before it in the fetch is read."""
    broker = Broker([batch(0, 10), nonsense(10)], at_once=2)
    reads = read_span(broker, Span("t", 0, 0, 20))
    assert [
        record.offset for piece in pieces_of(next(reads)) for record in piece.records()
    ] == list(range(10))
    with pytest.raises(DamagedError, match="from offset 10 on"):
        next(reads)


def test_what_stands_behind_a_broken_crc_is_read() -> None:
    broken = CorruptMessageError("t", 0, 10, "CRC", "", 20)
    broker = Broker([batch(0, 10), nonsense(10), batch(20, 10)])
    reads = read_span(broker, Span("t", 0, 0, 30), True)
    assert isinstance(next(reads), list)
    broker.errors = [broken] * fetching.TRIES
    rest = list(reads)
    assert Damage(10, 20, "CRC", 1_009, 1_009) in rest
    assert len(rest) == 2


@pytest.mark.slow
def test_bombs_are_passed_over_and_of_many_little_is_told_apart() -> None:
    """64 kB of batches, each a record of 250 MB: an executor of Spark died of them, again and
    again."""
    bad: list[Batch] = []
    for at in range(1, 600, 2):
        room = bytearray(bomb(250))
        place_batch(room, 0, at, 0)
        bad += [*split_batches(bytes(room)), batch(at + 1, 1)]
    broker = Broker([batch(0, 1), *bad], at_once=50)
    tracemalloc.start()
    found, told = read(broker, 0, 601)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == list(range(0, 601, 2))
    assert peak < 20_000_000
    assert len(told) == damage.MOST
    assert (told[0][:2], told[-1][:2]) == ((1, 2), (2 * damage.MOST - 1, 600))


def test_no_more_than_a_stated_number_of_bytes_is_handed_on_at_once() -> None:
    made: list[Batch] = []
    for at in range(6):
        room = bytearray(bomb(20))
        place_batch(room, 0, at, 0)
        made += split_batches(bytes(room))
    reads = read_span(Broker(made, at_once=6), Span("t", 0, 0, 6))
    assert [len(pieces_of(some)) for some in reads] == [2, 2, 2]


def test_what_the_client_gives_up_on_is_raised_as_it_is() -> None:
    broker = Broker([batch(0, 5)], errors=[KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"])])
    with pytest.raises(KafkaError, match="NOT_LEADER"):
        offsets(broker, 0, 5)


def test_a_log_that_is_cut_while_it_is_read_is_said() -> None:
    with pytest.raises(UserError, match="ends at 5, but at 9 when the read was planned"):
        offsets(Broker([batch(0, 5)]), 0, 9)


def test_offsets_deleted_while_they_are_read_are_said() -> None:
    error = KafkaError(CODES["OFFSET_OUT_OF_RANGE"])
    with pytest.raises(UserError, match="was deleted or cut off while"):
        offsets(Broker([batch(0, 5)], errors=[error]), 0, 5)


def test_a_broker_that_gives_nothing_does_not_hang_the_read() -> None:
    class Silent(Broker):
        def fetch(self, topic: str, partition: int, offset: int, **limits: int) -> Fetched:
            return Fetched(9, [], offset)

    with pytest.raises(UserError, match="gives nothing at offset 0 of 5"):
        offsets(Silent([]), 0, 5)


@pytest.mark.soak
@pytest.mark.slow
def test_a_batch_of_very_many_records_is_not_held_as_a_whole() -> None:
    """Six bytes of columns for each byte of the smallest records: one batch of a few MB made a
    worker larger than it may be."""
    rows = [(None, None, (), 1_000)] * 300_000
    made = split_batches(encode_batch(rows, compression="zstd"))
    tracemalloc.start()
    found = 0
    for some in read_span(Broker(made), Span("t", 0, 0, 300_000)):
        found += sum(len(piece.columns) for piece in pieces_of(some))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == 300_000
    assert peak < 20_000_000


def test_batches_that_are_older_than_the_start_are_not_unpacked() -> None:
    """One minute of a log was all of it unpacked. What cannot be unpacked shows that it is not."""
    broker = Broker([nonsense(0), nonsense(10), batch(20, 10)], at_once=3)
    reads = list(read_span(broker, Span("t", 0, 0, 30), since=2_000))
    assert reads == []
    (pieces,) = read_span(broker, Span("t", 0, 0, 30), since=1_009)
    assert [record.offset for piece in pieces_of(pieces) for record in piece.records()] == list(
        range(20, 30)
    )
