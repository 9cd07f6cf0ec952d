"""What is left out because it cannot be read: exactly that, and only when it is in the log."""

from __future__ import annotations

import pytest

from tallymark.client.reading.fetched import Fetched
from tallymark.errors import CODES, CorruptMessageError, KafkaError
from tallymark.mirror.damage import TIMES, Damage, end_of_damage
from tallymark.protocol.record_writer import encode_batch
from tallymark.protocol.records import Batch, split_batches

RECORDS = [(None, b"x", (), 1)] * 10


def batch(offset: int) -> bytearray:
    return bytearray(encode_batch(RECORDS, base_offset=offset))


class Log:
    """Batches of ten from 0 on, read without checking."""

    def __init__(self, *batches: bytearray) -> None:
        self.batches = [one for part in batches for one in split_batches(bytes(part))]
        self.trouble: KafkaError | None = None

    def fetch(self, topic: str, partition: int, offset: int, *, max_wait_ms: int) -> Fetched:
        if self.trouble is not None:
            raise self.trouble
        found: tuple[Batch, ...] = tuple(self.batches[offset // 10 :])
        end = len(self.batches) * 10
        return Fetched(topic, partition, offset, end, 0, found, end, 0)


def met(offset: int) -> CorruptMessageError:
    return CorruptMessageError("clicks", 0, offset, "a bit fell over")


def test_it_has_to_be_met_again_and_again() -> None:
    damage = Damage()
    assert [damage.is_lasting(met(5)) for _ in range(TIMES)] == [False] * (TIMES - 1) + [True]
    assert not damage.is_lasting(met(6)), "another one"


@pytest.mark.parametrize("last", [False, True], ids=["in the middle", "at the end"])
def test_a_damaged_batch_is_left_out_and_nothing_else(last: bool) -> None:
    damaged = batch(10)
    damaged[-1] ^= 1
    log = Log(batch(0), damaged) if last else Log(batch(0), damaged, batch(20))
    found = end_of_damage(log, met(10))
    assert found is not None
    assert (found.offset, found.next_offset, found.batches) == (10, 20, ())
    found = end_of_damage(log, met(13))
    assert found is not None
    assert (found.offset, found.next_offset) == (13, 20), "its beginning was read before"


def test_damage_on_the_way_is_none() -> None:
    assert end_of_damage(Log(batch(0)), met(0)) is None


@pytest.mark.parametrize("delta", [3, 25], ids=["too short", "too long"])
def test_a_length_that_the_log_does_not_bear_out_is_not_believed(delta: int) -> None:
    damaged = batch(10)
    damaged[23:27] = delta.to_bytes(4, "big")  # its last offset
    damaged[57:61] = min(10, delta + 1).to_bytes(4, "big")
    assert end_of_damage(Log(batch(0), damaged, batch(20), batch(30)), met(10)) is None


def test_a_cluster_that_does_not_answer_is_asked_again() -> None:
    log = Log(batch(0))
    log.trouble = KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"])
    with pytest.raises(KafkaError, match="NOT_LEADER"):
        end_of_damage(log, met(0))
    log.trouble = met(0)  # not even the header can be read
    assert end_of_damage(log, met(0)) is None
