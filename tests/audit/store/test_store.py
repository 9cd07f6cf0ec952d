"""The store: its statements suit SQLite and PostgreSQL, several processes share it, and what is
wrong with it is said in a line."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from old_stores import load_old_store
from sqlalchemy import Connection, inspect, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from tallymark.errors import UserError
from tallymark_audit.events.claim_book import Ahead, Reporter
from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import Block, CellKey, Copy, Summary
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Claim, Observation
from tallymark_audit.store import open_store
from tallymark_audit.store.counted import counts, facts, positions
from tallymark_audit.store.counted.damage import (
    UnreadableSpan,
    damaged_places,
    holes_of,
    note_holes,
)
from tallymark_audit.store.counted.openings import (
    Overflowed,
    Spent,
    overflowed,
    save_spent,
    spent_of,
)
from tallymark_audit.store.counted.positions import FencedError, Position
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, effective, record_verdicts
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_audit.store.schema import rows, tables
from tallymark_audit.store.schema.upsert import insert_new, statement_for, upsert

KEY = CellKey("t", 3, 5000, "web", "ab" * 8)
RANGES = RangeSet([(0, 4), (9, 9)])


def address(folder: Path) -> str:
    return f"sqlite:///{folder / 'deep' / 'audit.db'}"


def verdict(state: State, missing: int = 0, window: int = 0) -> Verdict:
    return Verdict("e", "t", window, state, claimed=10, observed=10 - missing, missing=missing)


def test_rows_keep_everything() -> None:
    seen = Observation(
        KEY,
        7,
        70,
        RANGES,
        (Copy(1, 2, 3),),
        (),
        RANGES,
        2**64 - 1,
        (Block(0, 7, 2**63),),
        (-1, 4, 90, 3),
        10,
        20,
        5001,
        5009,
        1,
        2,
    )
    assert rows.observation_from_row(rows.observation_to_row("dc1", "t", 1, seen)) == seen
    claim = Claim(
        KEY,
        RANGES,
        RANGES,
        RANGES,
        RANGES,
        RANGES,
        RANGES,
        RANGES,
        Summary(9, 7, 1, 1, 2**64 - 1),
        (Block(0, 7, 2**63),),
        7,
        70,
        5001,
        5009,
        0,
        again=(RANGES, RANGES),
        duplicate_count=3,
        latency=(-1, 4, 90, 3),
        skewed=1,
        unstamped=2,
        malformed=3,
    )
    assert rows.claim_from_row(rows.claim_to_row("dc1", "r", 0, 1, claim)) == claim
    reporter = Reporter("r", seen=RANGES, ahead=(Ahead(9, 8, 1, 77, True),), first_seen=5)
    assert rows.reporter_from_row(rows.reporter_to_row("dc1", reporter)) == reporter
    copies = (RANGES,), (Copy(1, 2, 3),)
    cell = CellVerdict(KEY, State.MIXED, 9, 8, RANGES, 6, 1, *copies, reason="why")
    assert rows.cell_from_json(rows.cell_to_json(cell)) == cell


def test_the_statements_are_postgresqls_too() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy's
    for table in tables.metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
        if len(table.columns) > len(table.primary_key.columns):
            made = statement_for("postgresql", table, tuple(c.name for c in table.columns))
            assert "ON CONFLICT" in str(made.compile(dialect=dialect))
    query = select(tables.verdicts).where(effective())
    assert "NOT (EXISTS" in str(query.compile(dialect=dialect))


TABLES = tables.metadata.sorted_tables


def _indexes(connection: Connection) -> set[str | None]:
    found = inspect(connection).get_multi_indexes()
    return {one["name"] for some in found.values() for one in some}


@pytest.mark.parametrize("version", [1, 4])
def test_an_old_store_is_brought_up_to_date(database: str, version: int) -> None:
    """What an older program counted stays, and reads as "not known" where it could not tell. Keys
    that have changed (claims, damage) are those of tables made anew, with what was in them."""
    load_old_store(database, version)
    open_store(database).close()
    with open_store(database) as store, store.read() as connection:
        seen = facts.observed(connection, "dc1", "t", [5000, 6000])
        said = facts.claimed(connection, "dc1", "t", [5000, 6000])
        found = {row["window"]: row for row in queries.windows(connection)}
        (at,) = positions.load_positions(connection, "dc1")
        (incident,) = queries.all_incidents(connection)
        (reporter,) = connection.execute(select(tables.reporters)).mappings()
        now = connection.scalar(select(tables.meta.c.value))
        keys = [
            inspect(connection).get_pk_constraint(name)["constrained_columns"]
            for name in ("claims", "damage")
        ]
        assert _indexes(connection) == {i.name for t in TABLES for i in t.indexes}
    cell = CellKey("t", 3, 6000, "web", "ab" * 8)
    claimed, observed = said[6000][cell], seen[6000][cell]
    assert claimed.acknowledged - observed.ranges == RangeSet.single(19, 19)
    assert (claimed.summary, claimed.blocks, observed.fingerprint) == (None, (), None)
    assert [found[window]["state"] for window in (5000, 6000)] == ["COMPLETE", "LOSS"]
    kind = "truncated" if version == 1 else "damaged"
    assert (at.next_offset, incident["kind"], now) == (20, kind, str(tables.SCHEMA_VERSION))
    assert (reporter["instance"], reporter["closed"]) == ("ab" * 8, version == 4)
    assert "instance" in keys[0]
    assert "from_offset" in keys[1]


def test_a_store_of_version_4_keeps_its_damage_and_takes_what_is_new(database: str) -> None:
    """Where the older program stood still is no hole: it ended nowhere. Holes, and what partitions
    spent of their cells, come beside it."""
    load_old_store(database, 4)
    with open_store(database) as store:
        with store.read() as connection:
            (old,) = connection.execute(select(tables.damage)).mappings()
            (packed,) = connection.execute(select(tables.archive)).mappings()
            assert damaged_places(connection, "dc1") == {("t", 3)}
            assert holes_of(connection, "dc1", ("t", 3)) == []
            assert spent_of(connection, "dc1", "t", 3) == Spent()
        assert (old["from_offset"], old["to_offset"], old["until"], old["final"]) == (20, -1, -1, 0)
        assert (old["reason"], old["since"], old["at"]) == ("a CRC", 7000, 7100)
        assert bytes(packed["packed"]).hex() == "789c030000000001"
        hole, spent = UnreadableSpan(24, 26, "nonsense", 7000, 8000, True), Spent(1, 2, 3, 4, 5)
        with store.write() as connection:
            note_holes(connection, "dc1", ("t", 3), [hole], 9000)
            save_spent(connection, "dc1", "t", 3, spent)
        with store.read() as connection:
            assert holes_of(connection, "dc1", ("t", 3)) == [hole]
            assert spent_of(connection, "dc1", "t", 3) == spent
            assert overflowed(connection) == [Overflowed("dc1", "t", 3, 4, 5)]
            numbers = [row["id"] for row in queries.all_incidents(connection)]
        assert sorted(numbers) == [1, 2], "numbers go on where they were"


def test_one_consumers_cells_of_many_producers_are_kept_apart(database: str) -> None:
    """Their key once had no instance in it: of the producers in one partition the last one told
    stayed."""
    cells = [CellKey("t", 0, 0, "web", letter * 16) for letter in "ab"]
    with open_store(database) as store:
        with store.write() as connection:
            told = [
                rows.claim_to_row("dc1", "reader", 0, 1, Claim(key, RANGES), "consumer")
                for key in cells
            ]
            upsert(connection, tables.claims, told)
        with store.read() as connection:
            assert len(connection.execute(select(tables.claims)).all()) == 2


def test_many_rows_at_once(database: str) -> None:
    """PostgreSQL refuses a statement that writes one row twice; what a row leaves out has its
    default; a NUL or a quote in a name is a name."""
    many: list[dict[str, object]] = [
        {"edge": "e'\"", "topic": f"t{at % 7}", "window": at % 14, "source": "x", "cells": [at, []]}
        for at in range(40)
    ]
    with open_store(database) as store:
        with store.write() as connection:
            upsert(connection, tables.verdicts, many)
        with store.write() as connection:
            insert_new(connection, tables.verdicts, [{**row, "cells": []} for row in many])
        with store.read() as connection:
            found = connection.execute(select(tables.verdicts)).mappings().all()
    assert {(row["topic"], row["window"]): row["cells"] for row in found} == {
        (f"t{at % 7}", at % 14): [at, []] for at in range(26, 40)
    }
    assert {(row["state"], row["claimed"], row["accepted_by"]) for row in found} == {("", 0, "")}


def test_several_open_it_at_once(database: str) -> None:
    """Every process of the stack starts at the same moment on an empty folder, and each of them
    makes the tables."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with open_store(database) as store:
                for at in range(20):
                    with store.write() as connection:
                        counts.touch(connection, "dc1", {("t", number * 100 + at)}, at)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with open_store(database) as store, store.read() as connection:
        assert len(connection.execute(select(tables.window_changes)).all()) == 80


def test_readers_do_not_wait_for_a_writer(database: str) -> None:
    with open_store(database) as store, store.write() as writing:
        counts.touch(writing, "dc1", {("t", 0)}, 1)
        with store.read() as reading:
            assert reading.execute(select(tables.window_changes)).all() == []


def test_tables_of_another_version_are_refused(database: str) -> None:
    with open_store(database) as store, store.write() as connection:
        connection.execute(tables.meta.update().values(value="99"))
    with pytest.raises(UserError, match="tables of version 99"):
        open_store(database)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("nonsense", "cannot be opened"),
        ("nodb://x", "cannot be opened"),
        ("sqlite:////dev/null/audit.db", "cannot be opened"),
        ("sqlite:////proc/audit.db", "cannot be opened"),
    ],
)
def test_a_store_that_is_not_there_is_said(where: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        open_store(where)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "audit.db").write_bytes(b"this is no database at all" * 50)
    with pytest.raises(UserError, match="not a database"):
        open_store(f"sqlite:///{tmp_path / 'audit.db'}")


def test_only_the_newest_collector_writes(database: str) -> None:
    with open_store(database) as store:
        with store.write() as connection:
            old = positions.take_over(connection, "dc1", "old", 1)
            positions.add_positions(connection, "dc1", [Position("t", 0), Position("t", 1)])
            new = positions.take_over(connection, "dc1", "new", 2)
            (before,) = positions.take(connection, "dc1", [Position("t", 0)])
            (mine,) = positions.take(connection, "dc1", [Position("t", 0)])
        assert (new, mine.generation) == (old + 1, before.generation + 1)
        with pytest.raises(FencedError, match="now new"), store.write() as connection:
            positions.fence(connection, "dc1", old, 3)
        with pytest.raises(FencedError, match="taken from offset 0"), store.write() as connection:
            positions.move(connection, "dc1", 0, replace(before, next_offset=5))
        with store.write() as connection:
            positions.fence(connection, "dc1", new, 3)
            positions.move(connection, "dc1", 0, replace(mine, next_offset=5))
        with pytest.raises(FencedError, match="taken from offset 4"), store.write() as connection:
            positions.move(connection, "dc1", 4, replace(mine, next_offset=9))
        with store.read() as connection:
            at = {one.place: one for one in positions.load_positions(connection, "dc1")}
        assert at["t", 0].next_offset == 5
        assert at["t", 1].generation == 0


def test_verdicts_have_revisions_and_a_history(database: str) -> None:
    with open_store(database) as store:
        states = [
            verdict(State.OPEN),
            verdict(State.OPEN),
            verdict(State.SETTLING, 4),
            verdict(State.LOSS, 4),
            verdict(State.LOSS, 4),
            verdict(State.LOSS, 2),
            verdict(State.COMPLETE),
        ]
        news = []
        for now, one in enumerate(states):
            with store.write() as connection:
                news.append(bool(record_verdicts(connection, [one], COLLECTOR, now)))
        assert news == [True, False, True, True, False, True, True]
        with store.read() as connection:
            (row,) = queries.windows(connection)
            history = window_evidence.evidence(connection, "e", "t", 0).history
    assert (row["state"], row["revision"], row["judged_at"]) == ("COMPLETE", 4, 6)
    assert [(h["revision"], h["state"], h["missing"]) for h in history] == [
        (0, "OPEN", 0),
        (1, "SETTLING", 4),
        (2, "LOSS", 4),
        (3, "LOSS", 2),
        (4, "COMPLETE", 0),
    ]


def test_nothing_about_nothing_is_no_verdict(database: str) -> None:
    with open_store(database) as store:
        with store.write() as connection:
            assert record_verdicts(connection, [Verdict("e", "t", 0, State.OPEN)], SPARK, 1) == []
        with store.read() as connection:
            assert queries.windows(connection) == []


@pytest.mark.parametrize(
    ("collector", "spark", "holds"),
    [
        ((State.COMPLETE, 1), (State.LOSS, 2), State.LOSS),
        ((State.COMPLETE, 2), (State.LOSS, 2), State.LOSS),
        ((State.COMPLETE, 3), (State.LOSS, 2), State.COMPLETE),
        ((State.SETTLING, 3), (State.LOSS, 2), State.LOSS),
        ((State.SETTLING, 1), (State.COMPLETE, 2), State.COMPLETE),
    ],
)
def test_which_of_two_sources_holds(
    collector: tuple[State, int], spark: tuple[State, int], holds: State, database: str
) -> None:
    with open_store(database) as store:
        with store.write() as connection:
            record_verdicts(connection, [verdict(collector[0])], COLLECTOR, collector[1])
            record_verdicts(connection, [verdict(spark[0])], SPARK, spark[1])
        with store.read() as connection:
            assert [row["state"] for row in queries.windows(connection)] == [holds]
            (summary,) = queries.overview(connection)
    assert summary.states == {holds: 1}


def test_filters(database: str) -> None:
    with open_store(database) as store:
        many = [verdict(State.LOSS if at % 2 else State.COMPLETE, window=at) for at in range(10)]
        with store.write() as connection:
            record_verdicts(connection, many, COLLECTOR, 1)
        with store.read() as connection:
            found = queries.windows(connection, "e", "t", 2, 8, ["LOSS"], limit=2)
            assert queries.windows(connection, topic="other") == []
            (recent,) = queries.overview(connection, since=8)
    assert [row["window"] for row in found] == [7, 5]
    assert recent.states == {"COMPLETE": 1, "LOSS": 1}
