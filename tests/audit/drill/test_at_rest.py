"""What rots in closed segments, and that what is left is a log."""

import random
from pathlib import Path

import pytest
from drill_requests import INSTANCE, SERVER, stamped

from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark_audit.proof.drill.faults import at_rest
from tallymark_audit.proof.drill.truth.books_and_logs import (
    Log,
    SenderRun,
    crc_is_right,
    read_files,
)
from tallymark_audit.proof.harness.power_failure import CHECKPOINT

BATCHES, RECORDS, SEGMENTS = 4, 10, 4
IN_SEGMENT = BATCHES * RECORDS
WINDOW = 1_000
TOPIC = "orders"


def partition_in(data: Path, flushed: int, compression: str = "none") -> Path:
    """The folder of a partition with :data:`SEGMENTS` segments; a record's time is its offset in
    hundreds of ms."""
    folder = data / f"{TOPIC}-0"
    folder.mkdir(parents=True)
    for number in range(SEGMENTS):
        base = number * IN_SEGMENT
        content = b"".join(
            encode_batch(
                [stamped(offset, timestamp=offset * 100) for offset in range(at, at + RECORDS)],
                base_offset=at,
                compression=compression,
            )
            for at in range(base, base + IN_SEGMENT, RECORDS)
        )
        (folder / f"{base:020}.log").write_bytes(content)
        (folder / f"{base:020}.index").write_bytes(b"stale")
    (data / CHECKPOINT).write_text(f"0\n1\n{TOPIC} 0 {flushed}\n")
    return folder


def held(segment: Path) -> dict[int, tuple[int, bytes | None]]:
    """Offset -> sequence and value; a batch whose CRC is wrong raises."""
    found: dict[int, tuple[int, bytes | None]] = {}
    for batch in split_batches(segment.read_bytes()):
        batch.check_crc()
        for record in batch.records():
            stamp = stamp_of(record.headers)
            assert isinstance(stamp, Stamp)
            found[record.offset] = stamp.sequence, record.value
    return found


def second(folder: Path) -> Path:
    return folder / f"{IN_SEGMENT:020}.log"


def test_closed_segments_are_flushed_old_and_not_the_first(tmp_path: Path) -> None:
    folder = partition_in(tmp_path, flushed=3 * IN_SEGMENT)
    bases = [int(path.stem) for path in at_rest.closed_segments(folder, 10**9)]
    assert bases == [IN_SEGMENT, 2 * IN_SEGMENT], "the first and the one that is written are left"
    young = at_rest.closed_segments(folder, (2 * IN_SEGMENT) * 100)
    assert [int(path.stem) for path in young] == [IN_SEGMENT]
    behind = at_rest.closed_segments(folder, 10**9, first_offset=IN_SEGMENT + 1)
    assert [int(path.stem) for path in behind] == [2 * IN_SEGMENT]
    unflushed = partition_in(tmp_path / "other", flushed=3 * IN_SEGMENT - 1)
    assert [int(path.stem) for path in at_rest.closed_segments(unflushed, 10**9)] == [IN_SEGMENT]


def test_a_segment_of_one_batch_has_no_batch_before_it_to_tell_the_time(tmp_path: Path) -> None:
    """A mirror that had stood still sent all at once: the drill chose the one batch of a segment,
    and ended."""
    folder = partition_in(tmp_path, flushed=10**6)
    content = split_batches(second(folder).read_bytes())[0].data
    second(folder).write_bytes(content)
    bases = [int(path.stem) for path in at_rest.closed_segments(folder, 10**9)]
    assert bases == [2 * IN_SEGMENT]


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_changed_values_differ_by_a_bit_and_nothing_else_does(
    tmp_path: Path, compression: str
) -> None:
    segment = second(partition_in(tmp_path, 10**6, compression))
    before = held(segment)
    rotten = at_rest.change_values(segment, random.Random(3))
    after = held(segment)
    assert {at: one for at, (one, _) in after.items()} == {
        at: one for at, (one, _) in before.items()
    }
    changed = {offset for offset in before if before[offset] != after[offset]}
    assert changed == {record.offset for record in rotten.records}
    assert len(changed) == 8
    assert not segment.with_suffix(".index").exists()


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_changed_stamp_is_that_of_the_message_behind(tmp_path: Path, compression: str) -> None:
    segment = second(partition_in(tmp_path, 10**6, compression))
    before = held(segment)
    rotten = at_rest.change_stamps(segment, random.Random(3), WINDOW)
    after = held(segment)
    changed = {offset for offset in before if before[offset] != after[offset]}
    assert changed == {record.offset for record in rotten.records}
    assert len(changed) == 4
    for offset in changed:
        assert after[offset] == (before[offset + 1][0], before[offset][1])
        assert offset // 10 == (offset + 1) // 10, "both are of one window"


def test_a_removed_segment_takes_its_indexes_along(tmp_path: Path) -> None:
    segment = second(partition_in(tmp_path, 10**6))
    rotten = at_rest.remove(segment)
    assert [one.offset for one in rotten.records] == list(range(IN_SEGMENT, 2 * IN_SEGMENT))
    assert not segment.exists()
    assert not segment.with_suffix(".index").exists()


def test_a_broken_crc_is_of_one_batch_and_the_truth_reads_around_it(tmp_path: Path) -> None:
    segment = second(partition_in(tmp_path, 10**6))
    rotten = at_rest.break_crc(segment, random.Random(1))
    batches = split_batches(segment.read_bytes())
    broken = [batch for batch in batches if not crc_is_right(batch)]
    assert [batch.header.base_offset for batch in broken] == [rotten.offset]
    assert rotten.before == (rotten.offset - 1) * 100
    with pytest.raises(CorruptRecordError):
        held(segment)
    found: Log = {}
    read_files([segment], TOPIC, 0, found)
    left = found[SenderRun(TOPIC, 0, SERVER, INSTANCE.hex())].keys()
    gone = range(rotten.offset, rotten.offset + RECORDS)
    assert left == set(range(IN_SEGMENT, 2 * IN_SEGMENT)) - set(gone)


def test_behind_a_segments_last_batch_stands_the_next_segment(tmp_path: Path) -> None:
    """A segment had two batches, and the second was broken. The truth had nothing behind it, so it
    asked for fourteen windows that cannot be known, where the audit had rightly named one."""
    partition = partition_in(tmp_path, 10**6)
    segment = second(partition)
    halves = split_batches(segment.read_bytes())[:2]
    segment.write_bytes(b"".join(bytes(batch.data) for batch in halves))
    rotten = at_rest.break_crc(segment, random.Random(1))
    assert rotten.offset == IN_SEGMENT + RECORDS
    assert rotten.behind == (2 * IN_SEGMENT + RECORDS - 1) * 100
    for later in sorted(partition.glob("*.log"))[2:]:
        later.unlink()
    segment.write_bytes(b"".join(bytes(batch.data) for batch in halves))
    assert at_rest.break_crc(segment, random.Random(1)).behind == 2**63 - 1
