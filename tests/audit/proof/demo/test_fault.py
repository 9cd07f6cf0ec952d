"""The demo's power failure takes only what was not flushed, and what it took is known exactly."""

import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, encode_stamp
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark_audit.proof.demo.result import located, named_missing, total
from tallymark_audit.proof.demo.truth import Identity, open_seal, seal
from tallymark_audit.proof.harness.power_failure import UnflushedTail, cut_tail, unflushed_tails

RUN = bytes(range(8))


def batch(first: int, count: int) -> bytes:
    records = [
        (
            None,
            b"x" * 20,
            ((STAMP_HEADER, encode_stamp(Stamp(RUN, 3, first + i, "web-1"))),),
            1000 + i,
        )
        for i in range(count)
    ]
    return encode_batch(records, base_offset=first)


def segment(folder: Path, batches: int, checkpoint: int | None = None) -> Path:
    log = folder / "clicks-1" / f"{0:020d}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"".join(batch(i * 5, 5) for i in range(batches)))
    if checkpoint is not None:
        text = f"0\n1\nclicks 1 {checkpoint}\n"
        (folder / "recovery-point-offset-checkpoint").write_text(text)
    return log


def test_what_is_flushed_is_not_in_the_tail(tmp_path: Path) -> None:
    log = segment(tmp_path, 4, checkpoint=10)
    (tail,) = unflushed_tails(tmp_path)
    assert (tail.topic, tail.partition, tail.segment) == ("clicks", 1, log)
    assert (tail.start, tail.end) == (log.stat().st_size // 2, log.stat().st_size)


def test_without_a_checkpoint_everything_is_unflushed(tmp_path: Path) -> None:
    segment(tmp_path, 2)
    assert [tail.start for tail in unflushed_tails(tmp_path)] == [0]


def test_a_log_that_is_all_flushed_has_no_tail(tmp_path: Path) -> None:
    segment(tmp_path, 2, checkpoint=10)
    assert unflushed_tails(tmp_path) == []


def test_internal_topics_are_left_alone(tmp_path: Path) -> None:
    log = segment(tmp_path, 1)
    log.parent.rename(tmp_path / "_tallymark_audit-0")
    assert unflushed_tails(tmp_path) == []


@given(seed=st.integers())
def test_what_was_taken_and_what_survives_make_up_the_whole(seed: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        log = segment(Path(folder), 6, checkpoint=10)
        (tail,) = unflushed_tails(Path(folder))
        cut = cut_tail(tail, random.Random(seed))
        assert log.stat().st_size == cut.position < tail.end
        survivors = sum(len(one.records()) for one in split_batches(log.read_bytes()))
        seal(cut, Path(folder) / "sealed" / "tail")
        taken = open_seal(Path(folder) / "sealed" / "tail", "clicks")
        assert survivors >= 10
        assert taken == {
            Identity("clicks", 3, RUN.hex(), number, "web-1") for number in range(survivors, 30)
        }


def test_a_cut_at_the_start_of_a_batch_takes_that_batch(tmp_path: Path) -> None:
    log = segment(tmp_path, 2)
    half = log.stat().st_size // 2

    class Exactly(random.Random):
        def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
            return half

    cut = cut_tail(UnflushedTail("clicks", 1, log, 0, log.stat().st_size), Exactly())
    assert len(cut.taken) == half


def test_reading_a_result() -> None:
    cell = {
        "topic": "clicks", "partition": 3, "instance": RUN.hex(), "server": "web-1",
        "missing": [4, 5, 9, 9],
        "located": [{"first_sequence": 4, "last_sequence": 5}],
    }  # fmt: skip
    result = {
        "edges": [{"missing": 3, "claimed": 10}, {"missing": 0, "claimed": 7}],
        "verdicts": [
            {"edge": "dc1-to-aggregate", "cells": [cell]},
            {"edge": "producer-to-dc1", "cells": [cell]},
        ],
    }
    assert {one.sequence for one in named_missing(result, "aggregate")} == {4, 5, 9}
    assert located(result) == 4
    assert (total(result, "missing"), total(result, "claimed")) == (3, 17)
