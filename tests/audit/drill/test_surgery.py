"""What is done to the log of a dead broker, and that a broker lives with it."""

import random
from pathlib import Path

from drill_requests import SERVER, TOPIC, stamped

from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark_audit.proof.drill.faults.kinds import CUT_OUT
from tallymark_audit.proof.drill.faults.log_faults import notes_of_removed, remove_middle

BATCHES, RECORDS = 10, 20


def segment_in(folder: Path) -> Path:
    path = folder / f"{0:020}.log"
    path.write_bytes(
        b"".join(
            encode_batch(
                [stamped(number * RECORDS + place) for place in range(RECORDS)],
                base_offset=number * RECORDS,
            )
            for number in range(BATCHES)
        )
    )
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).write_bytes(b"stale")
    return path


def offsets_in(path: Path) -> list[int]:
    return [
        record.offset for batch in split_batches(path.read_bytes()) for record in batch.records()
    ]


def test_records_vanish_behind_the_offset_and_are_written_down(tmp_path: Path) -> None:
    path = segment_in(tmp_path)
    before = [batch.header.base_offset for batch in split_batches(path.read_bytes())]
    removed = remove_middle(path, TOPIC, 100, random.Random(5), 12)
    gone = {record.offset for record in removed.records}
    assert len(gone) == 12
    assert min(gone) >= 100
    assert offsets_in(path) == [n for n in range(BATCHES * RECORDS) if n not in gone]
    for batch in split_batches(path.read_bytes()):
        batch.check_crc()
    after = [batch.header.base_offset for batch in split_batches(path.read_bytes())]
    assert after == before
    assert not path.with_suffix(".index").exists()
    (note,) = notes_of_removed(removed, "dc1-to-aggregate", 3)
    assert (note.kind, note.at, note.server) == (CUT_OUT, 3, SERVER)
    assert note.sequences.size == 12


def test_the_last_batch_and_what_was_counted_already_are_left_alone(tmp_path: Path) -> None:
    path = segment_in(tmp_path)
    before = path.read_bytes()
    last = (BATCHES - 1) * RECORDS
    removed = remove_middle(path, TOPIC, last, random.Random(5), 12)
    assert removed.records == ()
    assert notes_of_removed(removed, "dc1-to-aggregate", 3) == []
    assert path.read_bytes() == before
