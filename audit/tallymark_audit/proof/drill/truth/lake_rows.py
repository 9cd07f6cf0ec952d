"""What really is in the tables of the lake, read from their files row by row, and what has to be
said of the hop into it. Nothing of the lake's own code is used."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tallymark_audit.model.cells import LAKE
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.faults.lake_files import files_of, records_of
from tallymark_audit.proof.drill.planning.topology import (
    AGGREGATE,
    WINDOW_MS,
    SideTopic,
    Topology,
)
from tallymark_audit.proof.drill.truth.books_and_logs import Log, add_records
from tallymark_audit.proof.drill.truth.expected import LOSS, Expectation, Finding, expect


def lake_of(topology: Topology, topics: Iterable[SideTopic]) -> Log | None:
    """What the drill's tables hold; None: it has no lake. UserError: as below."""
    if topology.deployment.lake is None:
        return None
    cluster = Path(topology.deployment.lake_path) / AGGREGATE
    return read_lake(cluster, [one.name for one in topics if one.name in kinds.LAKE_FAULTS])


def read_lake(cluster: Path, topics: Iterable[str]) -> Log:
    """The stamped rows of these topics' tables. UserError: a stamp and its message disagree."""
    found: Log = {}
    for topic in topics:
        for file in files_of(cluster / topic):
            for partition, records in records_of(file).items():
                add_records(found, topic, partition, records)
    return found


def expect_of_lake(upstream: Log, rows: Log) -> Expectation:
    """The lake owes the topics that are drilled in it, and no others."""
    owed = {origin: seen for origin, seen in upstream.items() if origin.topic in kinds.LAKE_FAULTS}
    found = expect([], {AGGREGATE: owed, LAKE: rows}, [(AGGREGATE, LAKE)], WINDOW_MS)
    found.gone |= {item for item in found.items if _is_for_good(item)}
    return found


def _is_for_good(item: Finding) -> bool:
    """Whether no repair brings it back: the table still names a file that is lost, so its rows
    cannot be loaded again."""
    return item.kind == LOSS and item.cell.topic == kinds.LAKE_FILE_LOST
