"""Idempotent producers: a log that accepts what it should, once, whatever comes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import KafkaError
from tallymark.log.producers.snapshot import ProducerSnapshots, decode_snapshot, encode_snapshot
from tallymark.log.producers.state import KEPT, ProducerStates
from tallymark.protocol.records.batch import BatchHeader
from tallymark.testing.memory_files import MemoryFiles

LAST = 2**31 - 1


def header(
    sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 9, attributes: int = 0
) -> BatchHeader:
    return BatchHeader(
        0, 49, -1, 2, 0, attributes, count - 1, 0, 0, producer, epoch, sequence, count
    )


def states_with(*batches: tuple[int, int], epoch: int = 0) -> ProducerStates:
    """A producer that wrote these (sequence, count) to the offsets 0, 1, 2..."""
    states, offset = ProducerStates(), 0
    for sequence, count in batches:
        states.add(header(sequence, count, epoch=epoch), offset, now_ms=0)
        offset += count
    return states


def verdict(states: ProducerStates, batch: BatchHeader) -> str:
    try:
        kept = states.check(batch)
    except KafkaError as error:
        return error.name
    return "new" if kept is None else f"repeats {kept.first_offset}"


FIVE = [(n * 10, 10) for n in range(7)]  # 0..69 written, the last five batches are kept


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (header(70), "new"),
        (header(60, 10), "repeats 60"),
        (header(20, 10), "repeats 20"),
        (header(10, 10), "DUPLICATE_SEQUENCE_NUMBER"),  # stored, but where?
        (header(62, 3), "DUPLICATE_SEQUENCE_NUMBER"),
        (header(65, 10), "OUT_OF_ORDER_SEQUENCE_NUMBER"),  # half of it is new
        (header(71), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (header(LAST), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (header(0, epoch=1), "new"),
        (header(70, epoch=1), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (header(55, producer=10), "new"),
    ],
)
def test_verdicts(batch: BatchHeader, expected: str) -> None:
    assert verdict(states_with(*FIVE), batch) == expected


def test_an_older_epoch_is_invalid() -> None:
    assert verdict(states_with((0, 1), epoch=2), header(1, epoch=1)) == "INVALID_PRODUCER_EPOCH"


def test_sequences_begin_again_after_the_last() -> None:
    states = states_with((LAST - 1, 2))
    assert verdict(states, header(0)) == "new"
    across = states_with((LAST, 3))
    assert verdict(across, header(2)) == "new"
    assert verdict(across, header(LAST, 3)) == "repeats 0"
    assert verdict(across, header(0)) == "DUPLICATE_SEQUENCE_NUMBER"


def test_what_was_never_seen_is_never_called_stored() -> None:
    """A producer the log did not know begins at 50, as after a power failure. 40 was perhaps lost:
    calling it a duplicate would tell the producer that it is stored."""
    assert verdict(states_with((50, 10)), header(40, 10)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_marker_has_no_sequence_but_an_epoch() -> None:
    states = states_with((0, 5))
    states.add(header(-1, epoch=0, attributes=0x30), 5, now_ms=7)
    assert verdict(states, header(5)) == "new"
    states.add(header(-1, epoch=1, attributes=0x30), 6, now_ms=7)
    assert verdict(states, header(0, epoch=1)) == "new"
    assert verdict(states, header(5, epoch=0)) == "INVALID_PRODUCER_EPOCH"


def test_check_changes_nothing() -> None:
    states = states_with((0, 1))
    before = encode_snapshot(states)
    for sequence in (0, 1, 5):
        verdict(states, header(sequence))
    assert encode_snapshot(states) == before


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([0, 1000, LAST - 6]),
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
    st.data(),
)
def test_a_producer_that_retries_stores_everything_once(
    first: int, sizes: list[int], data: st.DataObject
) -> None:
    """Up to five batches in flight; any prefix of them arrives, the answers are lost, all are sent
    again in order."""
    states, log, sent = ProducerStates(), list[int](), list[BatchHeader]()
    at = first
    for size in sizes:
        sent.append(header(at, size))
        at = (at + size) % 2**31
    acknowledged = 0
    for _ in range(60):
        if acknowledged == len(sent):
            break
        window = sent[acknowledged : acknowledged + KEPT]
        arrived = data.draw(st.integers(1, len(window)))
        for batch in window[:arrived]:
            kept = states.check(batch)
            if kept is None:
                states.add(batch, len(log), now_ms=0)
                log += [(batch.base_sequence + n) % 2**31 for n in range(batch.record_count)]
            else:
                assert log[kept.first_offset] == batch.base_sequence
                assert kept.last_offset - kept.first_offset == batch.last_offset_delta
        acknowledged += data.draw(st.integers(0, arrived))
    assert log == [(first + n) % 2**31 for n in range(len(log))]


def test_expiry_spares_open_transactions() -> None:
    states = states_with((0, 1))
    entry = states.get(9)
    assert entry is not None
    entry.txn_first_offset = 0
    assert states.expire(10**9, 1000) == 0
    entry.txn_first_offset = -1
    assert states.expire(999, 1000) == 0
    assert states.expire(1000, 1000) == 1
    assert len(states) == 0


# --- snapshots


def test_the_snapshot_is_kafkas() -> None:
    states = ProducerStates()
    states.add(header(10, 5, epoch=2, producer=0x0102), 100, now_ms=77)
    assert encode_snapshot(states)[6:].hex(" ", 2) == (
        "0000 0001 0000 0000 0000 0102 0002 0000 000e 0000 0000 0000 0068"
        " 0000 0004 0000 0000 0000 004d ffff ffff ffff ffff ffff ffff"
    )
    assert encode_snapshot(states)[:2] == b"\0\1"


def test_a_snapshot_keeps_the_last_batch() -> None:
    again = decode_snapshot(encode_snapshot(states_with(*FIVE)))
    assert verdict(again, header(60, 10)) == "repeats 60"
    assert verdict(again, header(70)) == "new"
    assert verdict(again, header(50, 10)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    empty = states_with()
    empty.add(header(-1, attributes=0x30), 0, now_ms=0)
    assert encode_snapshot(decode_snapshot(encode_snapshot(empty))) == encode_snapshot(empty)


def test_the_tail_of_the_log_brings_the_others_back() -> None:
    again = decode_snapshot(encode_snapshot(states_with(*FIVE)))
    tail = [header(n * 10, 10)._replace(base_offset=n * 10) for n in range(7)]
    stranger = header(3, producer=10)
    again.deepen([stranger, *tail])
    for number in range(2, 7):
        assert verdict(again, header(number * 10, 10)) == f"repeats {number * 10}"
    assert verdict(again, header(0, 10)) == "DUPLICATE_SEQUENCE_NUMBER"
    assert len(again) == 1


def test_a_tail_with_a_gap_brings_nothing_back() -> None:
    again = decode_snapshot(encode_snapshot(states_with(*FIVE)))
    again.deepen([header(n * 10, 10)._replace(base_offset=n * 10) for n in range(5)])
    assert verdict(again, header(40, 10)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_every_damage_of_a_snapshot_is_noticed() -> None:
    good = encode_snapshot(states_with((0, 1)))
    for at in range(len(good)):
        with pytest.raises(ValueError, match=r"."):
            decode_snapshot(good[:at])
        with pytest.raises(ValueError, match=r"."):
            decode_snapshot(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])


def test_the_newest_good_snapshot_is_taken() -> None:
    files = MemoryFiles()
    files.make_dirs("/d")
    snapshots = ProducerSnapshots(files, "/d")
    for offset in (10, 20, 30):
        snapshots.write(offset, states_with((offset, 1)), set())
    assert [n for n in files.listdir("/d") if n.endswith(".snapshot")] == [
        f"{offset:020d}.snapshot" for offset in (20, 30)
    ]
    found = snapshots.newest(40)
    assert found is not None
    assert found[0] == 30
    files.overwrite(f"/d/{30:020d}.snapshot", b"torn")
    found = snapshots.newest(40)
    assert found is not None
    assert found[0] == 20
    assert snapshots.newest(19) is None
    assert files.listdir("/d") == []
