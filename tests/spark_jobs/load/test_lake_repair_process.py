"""A load that loses rows, on a running cluster: the collector finds the loss at the lake's hop, the
repair loads exactly these messages again, and the windows are complete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from eventually import eventually
from one_cluster import collecting, one_cluster, settings_of

from tallymark.client import Producer
from tallymark.deployment import LakeSettings
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.cli.repair import repair
from tallymark_audit.judge.verdicts import State
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.rows import Row
from tallymark_spark_jobs.cli.load import load
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.load import landing
from tallymark_spark_jobs.source.reading import read_tables

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
EDGE = "dc1-to-lake"
RECORDS = 600
LOST = range(7, 10)
"""Offsets of partition 0 that the load passes over."""


def windows(store: Store) -> list[Row]:
    with store.read() as connection:
        return queries.windows(connection, EDGE)


def states(store: Store) -> set[str]:
    return {row["state"] for row in windows(store)}


def passes_over(consumer: Any, span: Any, *rest: Any, **options: Any) -> Iterator[Any]:
    """A reader that loses offsets: it gives what lies before and behind them."""
    if span.partition != 0 or not span.start <= LOST.start < LOST.stop <= span.end:
        yield from read_tables(consumer, span, *rest, **options)
        return
    yield from read_tables(consumer, replace(span, end=LOST.start), *rest, **options)
    yield from read_tables(consumer, replace(span, start=LOST.stop), *rest, **options)


def run(command: Any, *options: str, exits: int = 0) -> str:
    done = CliRunner().invoke(command, options, catch_exceptions=False)
    assert done.exit_code == exits, done.output
    return done.stdout


def rows_in(folder: Path) -> list[tuple[int, int]]:
    """(partition, offset) of each row of the table, however often it is there."""
    table = Lake(str(folder / "data" / "lake"), "delta").table("dc1", "views")
    found: list[tuple[int, int]] = []
    for file in table.open().files():
        part = pq.ParquetFile(Path(table.location) / file.path).read(["partition", "offset"])
        found += zip(part["partition"].to_pylist(), part["offset"].to_pylist(), strict=True)
    return sorted(found)


def test_what_a_load_lost_is_found_loaded_again_and_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("--settings", str(settings_of(tmp_path)))
    monkeypatch.setenv("TALLYMARK_SETTINGS", settings[1])
    with BrokerThread(tmp_path, num_partitions=2) as broker:
        deployment = one_cluster(broker.bootstrap_servers, tmp_path, LakeSettings(topics="views"))
        with open_store(deployment.audit_store) as store, collecting(deployment):
            with Producer(bootstrap_servers=broker.bootstrap_servers, server="web-1") as producer:
                for number in range(RECORDS):
                    producer.send("views", b"x" * 50, partition=number % 2)
            eventually(lambda: states(store) == {State.SETTLING})
            with monkeypatch.context() as patch:
                patch.setattr(landing, "read_tables", passes_over)
                told = json.loads(run(load, *settings, "--here", "--json"))
            assert [one["rows"] for one in told["tables"]] == [RECORDS - len(LOST)]

            eventually(lambda: State.LOSS in states(store) and State.SETTLING not in states(store))
            assert sum(row["missing"] for row in windows(store)) == len(LOST)
            place = (*settings, "--edge", EDGE)

            def planned() -> Any:
                items = json.loads(run(repair, *place, "--json"))["items"]
                return sum(one["count"] for one in items), "".join(one["refused"] for one in items)

            eventually(lambda: planned() == (len(LOST), ""))  # once the collector has located them

            run(repair, *place, "--apply", "--verify", "--timeout", "60")
            assert states(store) == {State.COMPLETE}
            assert rows_in(tmp_path) == [(p, n) for p in (0, 1) for n in range(RECORDS // 2)]
            run(repair, *place, "--apply")  # a second one finds nothing to do
            assert len(rows_in(tmp_path)) == RECORDS
