"""A collector asks next to nothing of a store in which nothing changes, and sees at once what does.

With a million cells and 60,000 verdicts in the store and nothing published, `tallymark up` took a
tenth of a core: watermarks, alerts and housekeeping asked for all of it again every few seconds,
topic by topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select

from tallymark.deployment import AuditSettings, Deployment
from tallymark_audit.alerts.alerter import Alerter
from tallymark_audit.collector.judging.horizons import Horizons
from tallymark_audit.collector.judging.watermark_writer import update_watermarks
from tallymark_audit.collector.judging.window_facts import counters_through, settle_ms, topics_known
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.judge.hops import Hop, hops_into
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import facts
from tallymark_audit.store.housekeeping.housekeeper import LONGEST_ROUND_MS, ROUND_MS, Housekeeper
from tallymark_audit.store.judged.verdict_changes import LONGEST_MS, Answers, last_change
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, accept, record_verdicts
from tallymark_audit.store.schema import tables

W = 60_000
NOW = 1_767_268_800_000
EDGES = (
    Edge("producer-to-dc1", "producer", "dc1", "producer"),
    Edge("dc0-to-dc1", "dc0", "dc1", "mirror"),
)
SETTINGS = AuditSettings(window_ms=W)
EDGE = "producer-to-dc1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/audit.db") as opened:
        yield opened


def put(store: Store, table: Any, *rows: dict[str, Any]) -> None:
    with store.write() as connection:
        for row in rows:
            connection.execute(table.insert().values(**row))


def counted(store: Store, topics: int, through: int = NOW) -> None:
    """Both clusters have counted these topics, and the audit topic, up to then."""
    names = [AUDIT_TOPIC, *(f"t{number:02}" for number in range(topics))]
    for cluster in ("dc0", "dc1"):
        place = {"cluster": cluster, "partition": 0, "counted_through": through}
        put(store, tables.progress, *({**place, "topic": name} for name in names))


def record(store: Store, state: State, window: int, topic: str = "t00", **sums: int) -> None:
    with store.write() as connection:
        told: dict[str, Any] = {"claimed": 9, "observed": 9, **sums}
        record_verdicts(connection, [Verdict(EDGE, topic, window, state, **told)], COLLECTOR, NOW)


def in_charge(store: Store) -> Ledger:
    ledger = Ledger(store, "dc1")
    ledger.take_over("me", NOW)
    return ledger


@contextmanager
def asking(store: Store) -> Iterator[list[str]]:
    """What is asked of the store meanwhile."""
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT"):
            asked.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    yield asked
    event.remove(store.engine, "before_cursor_execute", note)


def through(store: Store, topic: str = "t00") -> int:
    table = tables.watermarks
    query = select(table.c.through).where(table.c.edge == EDGE, table.c.topic == topic)
    with store.read() as connection:
        return connection.scalar(query) or 0


def test_watermarks_of_many_topics_ask_no_more_than_those_of_one(tmp_path: Path) -> None:
    """Twenty topics with a thousand bad windows each were read whole every half minute."""
    asked: list[list[str]] = []
    for number, topics in enumerate((1, 30)):
        with open_store(f"sqlite:///{tmp_path}/{number}.db") as store:
            counted(store, topics)
            for at in range(topics):
                record(store, State.UNKNOWN, NOW - 10 * W, f"t{at:02}")
            ledger, answers, hops = in_charge(store), Answers(), hops_into(EDGES, "dc1")
            update_watermarks(ledger, hops, SETTINGS, NOW, answers)
            with asking(store) as again:
                update_watermarks(ledger, hops, SETTINGS, NOW + 1, answers)
            asked.append(again)
            assert through(store, f"t{topics - 1:02}") == NOW - 10 * W
    assert len(asked[0]) == len(asked[1]) > 0
    assert not [one for one in asked[1] if "FROM verdicts" in one]


def test_a_watermark_follows_time_and_every_change_at_once(store: Store) -> None:
    """No verdict changed for an hour, then one does: by the judge, by a person, by Spark."""
    counted(store, 1, NOW - 60 * W)
    ledger, answers, hops = in_charge(store), Answers(), hops_into(EDGES, "dc1")

    def look() -> int:
        update_watermarks(ledger, hops, SETTINGS, NOW, answers)
        return through(store)

    before = look()
    with store.write() as connection:
        connection.execute(tables.progress.update().values(counted_through=NOW))
    assert look() == before + 60 * W
    record(store, State.LOSS, NOW - 20 * W, missing=1)
    assert look() == NOW - 20 * W
    with store.write() as connection:
        accept(connection, EDGE, "t00", NOW - 20 * W, "ann", "", NOW)
    assert look() == before + 60 * W
    with store.write() as connection:
        lost = Verdict(EDGE, "t00", NOW - 30 * W, State.LOSS, claimed=9, observed=8, missing=1)
        record_verdicts(connection, [lost], SPARK, NOW)
    assert look() == NOW - 30 * W


def test_horizons_of_all_topics_are_those_of_each(store: Store) -> None:
    """They are asked for all at once now: who has ended, was retired, is heard again or fills in
    old data counts as before, and so does what was learned of lateness, and what is deleted."""
    counted(store, 8)
    ends: tuple[dict[str, Any], ...] = (
        {},
        {"closed": True},
        {"retired_at": NOW},
        {"retired_at": NOW - 10 * W, "last_heard": NOW},
        {"backfill": True},
        {"tier": "consumer"},
    )
    for number, end in enumerate(ends):
        told = {"kind": "producer", "tier": "producer", "last_heard": NOW - W, "seen": []}
        told |= {"ahead": [], "complete_through": NOW - (20 + number) * W, "cluster": "dc1"}
        put(store, tables.reporters, {**told, "reporter": f"r{number}", **end})
        here = {"cluster": "dc1", "reporter": f"r{number}"}
        put(store, tables.reporter_topics, {**here, "topic": f"t0{number}"})
        put(store, tables.reporter_topics, {**here, "topic": "t07"})
    day = NOW - NOW % 86_400_000
    put(store, tables.lateness, {"edge": "dc1", "topic": "t06", "day": day, "sketch": [700, 5000]})
    gone = {"cluster": "dc1", "topic": "t05", "partition": 0, "at": NOW}
    put(store, tables.deleted, gone)
    with store.read() as connection:
        horizons = Horizons(connection, SETTINGS, NOW)
        found = {}
        for hop in hops_into(EDGES, "dc1"):
            for topic in sorted(facts.topics_on(connection, "dc1")):
                found[hop.edge.name, topic] = horizons.of(hop, topic)
                assert found[hop.edge.name, topic] == _horizon(connection, hop, topic)
    assert len(set(found.values())) >= 4


def _horizon(connection: Any, hop: Hop, topic: str) -> int:
    known = topics_known(connection, hop)
    counted = counters_through(connection, hop, topic, known)
    horizon = min(NOW, *counted) - settle_ms(connection, hop, topic, SETTINGS, NOW)
    if hop.edge.kind == "producer":
        for one in facts.reporters_of(connection, "dc1", topic, ()):
            if not one.ended and not one.backfill:
                horizon = min(horizon, one.complete_through)
    return max(0, horizon)


def test_alerts_read_verdicts_when_one_has_changed(tmp_path: Path, store: Store) -> None:
    """Every five seconds all bad windows there are were summed up. Now nothing is, and the alert
    about a loss is there at the next look all the same."""
    deployment = Deployment(data_dir=tmp_path)
    alerter = Alerter(in_charge(store), deployment)
    alerter.step(NOW)
    with asking(store) as asked:
        alerter.step(NOW + 5000)
    assert asked
    assert not [one for one in asked if "FROM verdicts" in one]
    record(store, State.LOSS, NOW - 20 * W, missing=4)
    alerter.step(NOW + 10_000)
    with store.read() as connection:
        rules = connection.scalars(select(tables.alerts.c.rule)).all()
    assert "TallymarkMissingMessages" in rules


def test_housekeeping_does_not_look_again_at_what_is_as_it_was(store: Store) -> None:
    """A thousand windows that wait for a lost producer were looked at in every round. What is quiet
    since, and what has a better verdict, is archived in the next one all the same."""
    since = NOW - 1000 * W
    place = {"cluster": "dc1", "topic": "t00", "changed_at": since}
    changes = [{**place, "window": since + at * W} for at in range(9)]
    put(store, tables.window_changes, *changes)
    for at in range(9):
        record(store, State.UNKNOWN, since + at * W)
    house = Housekeeper(in_charge(store), EDGES[:1], SETTINGS)
    now = NOW
    house.step(now)
    with asking(store) as asked:
        now += ROUND_MS
        house.step(now)
    assert not [one for one in asked if "FROM verdicts" in one]
    record(store, State.COMPLETE, since + 20 * W)
    put(
        store,
        tables.window_changes,
        {**place, "window": since + 20 * W, "changed_at": since + 1},
    )
    now += 2 * ROUND_MS
    assert house.step(now) == 1
    record(store, State.COMPLETE, since + 3 * W)
    now += LONGEST_ROUND_MS
    assert house.step(now) == 1


def test_what_left_no_mark_is_seen_some_time_later(store: Store) -> None:
    """A Spark job of the version before writes verdicts and leaves no mark."""
    answers = Answers()
    asked: list[int] = []

    def look(now: int) -> int:
        with store.read() as connection:
            answers.look(connection, now)

        def ask() -> int:
            asked.append(now)
            return len(asked)

        return answers.of("how many", ask)

    assert [look(NOW), look(NOW + 1), look(NOW + LONGEST_MS - 1)] == [1, 1, 1]
    assert look(NOW + LONGEST_MS) == 2
    assert look(NOW - 1) == 3, "the clock was set back"
    record(store, State.COMPLETE, 0)
    assert look(NOW - 1) == 4


def test_what_was_not_written_leaves_no_mark(store: Store) -> None:
    """The store goes away while verdicts are written: neither they nor their mark are there."""
    record(store, State.COMPLETE, 0)
    with store.read() as connection:
        before = last_change(connection)
    with pytest.raises(RuntimeError):
        _record_and_fail(store)
    with store.read() as connection:
        assert last_change(connection) == before != ""


def _record_and_fail(store: Store) -> None:
    with store.write() as connection:
        record_verdicts(connection, [Verdict(EDGE, "t00", W, State.LOSS, 9)], COLLECTOR, NOW)
        raise RuntimeError("gone")
