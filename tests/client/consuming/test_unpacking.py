"""Few bytes on the wire that are many when they are unpacked: how much at once, and who refuses."""

from __future__ import annotations

import threading
import tracemalloc

import pytest
from hostile_batches import MB, bomb, garbage, good

from tallymark.cli.messages.reading.reader import ROUND_BYTES, SpanReader
from tallymark.cli.messages.reading.spans import Span
from tallymark.client.consuming.stream import Chunk, Gate, Stream
from tallymark.client.consuming.subscription_state import PartitionProgress
from tallymark.client.reading.fetched import Fetched
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.coordination.consumers.offsets import Position
from tallymark.errors import CorruptMessageError, CorruptRecordError, UserError
from tallymark.protocol.records.batch import Batch, place_batch, split_batches
from tallymark.protocol.records.compression import (
    DEFAULT_MAX_SIZE,
    USUAL_MAX_SIZE,
    DecompressedTooLargeError,
    compress,
    decompress,
    usual_max_size,
)


def placed(*batches: bytes) -> list[Batch]:
    """As a log has them, one behind the other."""
    found: list[Batch] = []
    at = 0
    for data in batches:
        room = bytearray(data)
        place_batch(room, 0, at, 0)
        found += split_batches(bytes(room))
        at = found[-1].header.next_offset
    return found


def fetched(*batches: bytes) -> Fetched:
    here = placed(*batches)
    end = here[-1].header.next_offset
    return Fetched("t", 0, 0, end, 0, here, end, 0)


def test_a_frame_that_says_that_it_is_too_large_is_not_unpacked() -> None:
    """Each of a hundred in a megabyte took 50 ms to be found too large."""
    (one,) = placed(bomb(250))
    tracemalloc.start()
    with pytest.raises(DecompressedTooLargeError):
        one.columns(one.usual_max_size)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MB


@pytest.mark.parametrize("size", [0, 1, 200, 255, 256, 257, 65_791, 65_792, 100_000])
def test_what_a_frame_says_of_its_size_refuses_nothing_that_fits(size: int) -> None:
    packed = compress("zstd", bytes(size))
    assert decompress("zstd", packed, size) == bytes(size)
    if size:
        with pytest.raises(CorruptRecordError):
            decompress("zstd", packed, size - 1)


def test_what_everybody_s_reader_unpacks_of_a_batch() -> None:
    assert usual_max_size(1000) == USUAL_MAX_SIZE
    assert usual_max_size(10 * MB) == 160 * MB
    assert usual_max_size(100 * MB) == DEFAULT_MAX_SIZE


@pytest.mark.soak
@pytest.mark.slow
def test_columns_of_a_fetch_do_not_hold_bomb_after_bomb() -> None:
    """Eight batches in 35 kB: `fetch().values()` took 3 GB. One is given,
    as ever; several are refused with what to do instead, and iterating goes through them."""
    bombs = [bomb(140)] * 8
    assert len(b"".join(bombs)) < 80_000
    tracemalloc.start()
    with pytest.raises(UserError, match=r"t-0 from offset 0 on.*256 MiB.*iterate over it"):
        fetched(*bombs).values()
    _, all_of_them = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    assert sum(len(message.value or b"") for message in fetched(*bombs)) == 8 * 140 * MB
    _, one_by_one = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all_of_them < 2 * DEFAULT_MAX_SIZE + 300 * MB, "two, and the work on one"
    assert one_by_one < 600 * MB, "one, its copies, and the message before"


def test_a_poll_takes_few_of_large_batches() -> None:
    """`poll()` took up to 500 messages, of whatever size when unpacked."""
    gate = Gate()
    gate.open(0)
    stream = Stream(gate, threading.Event())
    item = PartitionProgress("t", 0, 0, Position(0))
    here = placed(*[bomb(20)] * 5)
    stream.offer(Chunk(item, here, 0, 5, 0))
    assert [message.offset for message in stream.poll(0)] == [0]
    assert [message.offset for message in stream.poll(0, 2)] == [1]
    small = Stream(gate, threading.Event())
    item = PartitionProgress("t", 0, 0, Position(0))
    small.offer(Chunk(item, placed(*[good(0, 10)] * 30), 0, 300, 0))
    assert len(small.poll(0)) == 300


class Source(SimpleConsumer):
    """Answers as told; asked for offset n it begins there."""

    def __init__(self, *batches: bytes) -> None:
        self.batches = placed(*batches)

    def multifetch(self, specs, **_):  # type: ignore[no-untyped-def]
        (spec,) = specs
        kept = [one for one in self.batches if one.header.next_offset > spec.offset]
        end = self.batches[-1].header.next_offset
        return [Fetched("t", 0, spec.offset, end, 0, kept, end, 0)]


def test_commands_read_a_part_of_what_they_fetched_at_a_time() -> None:
    """`tallymark consume` unpacked all of a fetch before it printed a line."""
    consumer = Source(*[bomb(25)] * 4, good(0, 3))
    span = Span("t", 0, 0, None)
    reader = SpanReader(consumer)
    rounds = [[record.offset for record in reader.round([span])[0].records] for _ in range(2)]
    assert rounds == [[0, 1], [2, 3]]
    assert ROUND_BYTES < 50 * MB
    assert [record.offset for record in reader.round([span])[0].records] == [4, 5, 6]


def test_what_does_not_decode_says_where_to_go_on_and_swallows_nothing() -> None:
    """ "clicks-0 at offset 3: ...", and nobody could tell which offset to ask for next."""
    consumer = Source(good(0, 3), garbage(count=5, last_delta=4), good(0, 2))
    span = Span("t", 0, 0, None)
    reader = SpanReader(consumer)
    assert [record.offset for record in reader.round([span])[0].records] == [0, 1, 2]
    with pytest.raises(CorruptMessageError, match=r"t-0 at offset 3: .*go on at offset 8") as told:
        reader.round([span])
    assert (told.value.next_offset, told.value.intact) == (8, True)
