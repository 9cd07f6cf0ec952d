"""What the drill reads of the audit's store."""

from pathlib import Path

from sqlalchemy import func, insert, select

from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.sides import Claim
from tallymark_audit.proof.drill.findings.found import (
    read_alarms,
    read_reporters,
    read_skewed,
    read_verdicts,
    unnamed,
)
from tallymark_audit.proof.drill.truth.expected import SKEWED, Cell, Finding
from tallymark_audit.store import open_store
from tallymark_audit.store.housekeeping.packing import Changed, collapse
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.schema.rows import claim_to_row
from tallymark_audit.store.schema.tables import claims, window_changes

KEY = CellKey("orders", 1, 60_000, "web-1", "ab" * 8)


def verdict(state: State) -> Verdict:
    return Verdict("dc1-to-aggregate", "orders", 60_000, state, claimed=5, observed=5)


def test_skew_is_what_producers_report_of_their_cells(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'audit.db'}"
    with open_store(address) as store, store.write() as connection:
        rows = [
            claim_to_row("dc1", "producer-a", 0, 1, Claim(KEY, skewed=3)),
            claim_to_row("dc1", "producer-a", 1, 1, Claim(KEY, skewed=2)),
            claim_to_row("dc1", "producer-a", 0, 1, Claim(KEY._replace(window=0))),
            claim_to_row("dc1", "consumer-b", 0, 1, Claim(KEY, skewed=9), tier="consumer"),
        ]
        connection.execute(insert(claims), rows)
    cell = Cell("producer-to-dc1", KEY.topic, KEY.window, KEY.partition, KEY.server, KEY.instance)
    assert read_skewed(address) == {Finding(cell, SKEWED, 5)}
    assert read_reporters(address, KEY.instance) == []


def test_the_drill_waits_until_losses_of_mirrors_are_named() -> None:
    """The verdicts had come to rest while the places of what a torn log had lost were still looked
    for: 79 messages counted as without a place."""
    cell = {**KEY._asdict(), "state": "LOSS", "missing": [1, 5], "located": []}
    place = {"first_sequence": 1, "last_sequence": 5}
    mirrored = {"edge": "dc1-to-aggregate", "topic": "orders", "window": 60_000, "cells": [cell]}
    of_producer = {**mirrored, "edge": "producer-to-dc1"}
    assert unnamed([mirrored, of_producer]) == ["dc1-to-aggregate orders 60000"]
    assert unnamed([{**mirrored, "cells": [{**cell, "located": [place]}]}]) == []
    assert unnamed([{**mirrored, "cells": [{**cell, "state": "SETTLING"}]}]) == []


def test_skew_of_an_archived_window_is_told_too(tmp_path: Path) -> None:
    """The drill read the table of claims itself. A window that was healthy on every edge is
    archived after an hour, and its claims leave that table: in a long drill the skewed records of
    its first hour were not found, so the audit seemed to have missed them."""
    address = f"sqlite:///{tmp_path / 'audit.db'}"
    later = KEY._replace(window=120_000)
    changed = Changed(1, KEY.topic, KEY.window)
    with open_store(address) as store, store.write() as connection:
        rows = [
            claim_to_row("dc1", "producer-a", 0, 1, Claim(KEY, skewed=3)),
            claim_to_row("dc1", "producer-b", 0, 1, Claim(KEY, skewed=2)),
            claim_to_row("dc1", "consumer-b", 0, 1, Claim(KEY, skewed=9), tier="consumer"),
            claim_to_row("dc1", "producer-a", 0, 1, Claim(later, skewed=1)),
        ]
        connection.execute(insert(claims), rows)
        in_window = {"cluster": "dc1", **changed._asdict()}
        connection.execute(insert(window_changes), [in_window])
    before = read_skewed(address)
    assert {item.number for item in before} == {5, 1}
    with open_store(address) as store, store.write() as connection:
        assert collapse(connection, "dc1", [changed], now=2) == 1
        assert connection.scalar(select(func.count()).select_from(claims)) == 1
    assert read_skewed(address) == before


def test_an_alarm_that_was_taken_back_is_still_told(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'audit.db'}"
    with open_store(address) as store:
        for now, state in enumerate((State.SETTLING, State.LOSS, State.COMPLETE)):
            with store.write() as connection:
                record_verdicts(connection, [verdict(state)], COLLECTOR, 100_000 + now)
    assert [row["state"] for row in read_verdicts(address)] == ["COMPLETE"]
    assert read_verdicts(address, ["LOSS"]) == []
    assert read_alarms(address) == ["dc1-to-aggregate orders 60000 LOSS"]
