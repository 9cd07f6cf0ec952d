"""Faults in the files of a lake, and what the truth says of them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, encode_stamp
from tallymark_audit.proof.drill.applications.producer import message_value
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.faults.lake_files import damage, files_of
from tallymark_audit.proof.drill.planning.plan import make_drill_plan
from tallymark_audit.proof.drill.planning.topology import build
from tallymark_audit.proof.drill.truth.books_and_logs import Log, Seen, SenderRun
from tallymark_audit.proof.drill.truth.expected import DUPLICATION, LOSS
from tallymark_audit.proof.drill.truth.lake_rows import expect_of_lake, read_lake

AT = 1_769_846_400_000
ROWS = 40
SERVER, INSTANCE = "web-1", b"\xab" * 8


def table(folder: Path, topic: str) -> Path:
    """A table of one file with the sequences 0 to 39; returns the file."""
    stamps = [encode_stamp(Stamp(INSTANCE, 0, number, SERVER)) for number in range(ROWS)]
    rows = pa.table(
        {
            "key": pa.nulls(ROWS, pa.binary()),
            "value": [message_value(SERVER, 0, number) for number in range(ROWS)],
            "partition": pa.array([0] * ROWS, pa.int32()),
            "offset": range(ROWS),
            "timestamp": pa.array([AT * 1000] * ROWS, pa.timestamp("us", tz="UTC")),
            "headers": [[{"key": STAMP_HEADER, "value": stamp}] for stamp in stamps],
        }
    )
    file = folder / topic / f"topic={topic}" / "date=2026-01-31" / "hour=08" / "a.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(rows, file)
    (folder / topic / "_tallymark").mkdir()
    pq.write_table(rows, folder / topic / "_tallymark" / "tallies.parquet")
    return file


def upstream(folder: Path, topic: str) -> Log:
    """The log of which the table is a copy."""
    return read_lake(folder, [topic])


@pytest.mark.parametrize("kind", kinds.LAKE_FAULTS)
def test_what_was_done_to_a_file_is_what_the_truth_expects(tmp_path: Path, kind: str) -> None:
    file = table(tmp_path, kind)
    log = upstream(tmp_path, kind)
    origin = SenderRun(kind, 0, SERVER, INSTANCE.hex())
    assert sorted(log[origin]) == list(range(ROWS))
    assert log[origin][7][0]._replace(crc=0) == Seen(0, 7, AT, 0)
    assert not expect_of_lake(log, log).items
    done = {record.offset for record in damage(file, kind, random.Random(3))}
    found = expect_of_lake(log, read_lake(tmp_path, [kind]))
    assert {item.number for item in found.items} == done
    state = DUPLICATION if kind == kinds.LAKE_ROWS_TWICE else LOSS
    assert {(item.cell.edge, item.kind) for item in found.items} == {("aggregate-to-lake", state)}
    lost = kind == kinds.LAKE_FILE_LOST
    assert len(done) == (ROWS if lost else 8)
    assert found.gone == (found.items if lost else set())
    assert files_of(tmp_path / kind) == ([] if lost else [file])


def test_the_lake_owes_no_topic_but_its_own(tmp_path: Path) -> None:
    table(tmp_path, kinds.LAKE_ROWS_GONE)
    log = upstream(tmp_path, kinds.LAKE_ROWS_GONE)
    other = {origin._replace(topic="orders"): seen for origin, seen in log.items()}
    assert not expect_of_lake({**log, **other}, log).items


def test_a_drill_without_faults_of_the_lake_has_none(tmp_path: Path) -> None:
    for kind, topics in ((kinds.LAKE_ROWS_GONE, kinds.LAKE_ROWS_GONE), ("drop", None)):
        plan = make_drill_plan(3, 20, [kind])
        made = build(tmp_path / kind, plan.orders, loaded=plan.lake_topics)
        made.release()
        lake = made.deployment.lake
        assert (lake.topics if lake else None) == topics
