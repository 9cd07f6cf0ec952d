"""Where reading goes on behind a batch that cannot be read."""

from __future__ import annotations

import pytest

from tallymark.client.reading.behind import TIMES, Met, goes_on_at
from tallymark.client.reading.fetched import Fetched
from tallymark.errors import BatchCutError, CorruptMessageError, CorruptRecordError
from tallymark.protocol.records.batch import Batch, split_batches
from tallymark.protocol.records.writer import encode_batch

RECORDS = [(None, b"x", (), 1)] * 10


def batch(offset: int) -> bytearray:
    return bytearray(encode_batch(RECORDS, base_offset=offset))


class Log:
    """Batches of ten from 0 on, read as a consumer does; ``sends`` is how the broker finds them,
    whatever the headers say."""

    def __init__(self, *batches: bytearray) -> None:
        self.batches = [one for part in batches for one in split_batches(bytes(part))]
        self.end = len(self.batches) * 10
        self.fetches = 0

    def fetch(self, offset: int) -> Fetched:
        self.fetches += 1
        kept: list[Batch] = []
        for one in self.batches[offset // 10 :]:
            if one.header.last_offset < offset:
                continue
            try:
                one.check_crc()
            except CorruptRecordError as error:
                if not kept:
                    raise met(offset, one.header.next_offset) from error
                break
            kept.append(one)
        return Fetched("clicks", 0, offset, self.end, 0, kept, self.end, 0)


def met(offset: int, behind: int = -1, intact: bool = False) -> CorruptMessageError:
    return CorruptMessageError("clicks", 0, offset, "a bit fell over", "", behind, intact)


def damaged(offset: int, last_delta: int = 9) -> bytearray:
    data = batch(offset)
    data[-1] ^= 1
    data[23:27] = last_delta.to_bytes(4, "big")
    data[57:61] = min(10, last_delta + 1).to_bytes(4, "big")
    return data


def test_it_has_to_be_met_again_and_again() -> None:
    seen = Met()
    assert [seen.is_lasting(met(5)) for _ in range(TIMES)] == [False] * (TIMES - 1) + [True]
    assert not seen.is_lasting(met(6)), "another one"
    seen.forget("clicks", 0)
    assert not seen.is_lasting(met(6))


def test_what_was_sent_like_that_is_never_anything_else() -> None:
    assert Met().is_lasting(met(5, 9, intact=True))
    assert goes_on_at(met(5, 9, intact=True), Log().fetch, 100) == 9


def test_a_batch_that_came_in_part_is_never_passed_over() -> None:
    seen, cut = Met(), BatchCutError("clicks", 0, 5, "cut")
    assert not any(seen.is_lasting(cut) for _ in range(10 * TIMES))


@pytest.mark.parametrize("last", [False, True], ids=["in the middle", "at the end"])
def test_a_damaged_batch_is_left_out_and_nothing_else(last: bool) -> None:
    log = Log(batch(0), damaged(10), *([] if last else [batch(20)]))
    assert goes_on_at(met(10, 20), log.fetch, log.end) == 20
    assert goes_on_at(met(13, 20), log.fetch, log.end) == 20, "its beginning was read before"
    assert log.fetches <= 2


@pytest.mark.parametrize("delta", [3, 25, 2**31 - 2], ids=["too short", "too long", "absurd"])
def test_a_length_that_the_log_does_not_bear_out_is_not_believed(delta: int) -> None:
    """The damaged bits were those that say where the batch ends: what it says would skip good
    batches, or stand in the middle of one. What can be read next is looked for."""
    log = Log(batch(0), damaged(10, delta), *(batch(at) for at in range(20, 400, 10)))
    assert goes_on_at(met(10, 10 + delta + 1), log.fetch, log.end) == 20


def test_a_header_that_cannot_be_read_at_all() -> None:
    log = Log(batch(0), damaged(10), damaged(20), *(batch(at) for at in range(30, 2000, 10)))
    assert goes_on_at(met(10), log.fetch, log.end) == 30
    assert log.fetches < 30, "few steps, however long the log is"
    log = Log(batch(0), damaged(10), damaged(20))
    assert goes_on_at(met(10), log.fetch, log.end) == 30, "nothing behind it can be read"


def test_two_in_a_row_are_two() -> None:
    log = Log(batch(0), damaged(10), damaged(20), batch(30))
    assert goes_on_at(met(10, 20), log.fetch, log.end) == 20
    assert goes_on_at(met(20, 30), log.fetch, log.end) == 30
