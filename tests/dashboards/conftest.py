"""A store with one healthy topic, one with a loss and a duplicate, and what surrounds them; and the
one Chromium of all browser tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey, Copy
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, locate_cells, record_verdicts
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import collectors, incidents, reporters, runs
from tallymark_dashboards.app.application import create_app

if TYPE_CHECKING:
    from one_chromium import OneChromium
    from playwright.sync_api import Browser

W = 60_000
NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
EDGE = "dc1-to-aggregate"


@pytest.fixture(scope="session")
def chromium() -> Iterator[OneChromium]:
    """One for all browser tests of a worker."""
    if shutil.which("chromium") is None:
        pytest.skip("there is no chromium (deploy/ensure-chromium)")
    from one_chromium import OneChromium

    one = OneChromium()
    yield one
    one.close()


@pytest.fixture(scope="module")
def browser(chromium: OneChromium) -> Iterator[Browser]:
    """The browser, for the tests of one module."""
    with chromium.shown() as browser:
        yield browser


@pytest.fixture
def as_of_now(store: Store, deployment: Deployment) -> None:
    """All clusters are counted up to now."""
    with store.write() as connection:
        for cluster in deployment.clusters:
            row = {"cluster": cluster.name, "owner": "collector-1", "heartbeat": now_ms()}
            connection.execute(collectors.insert().values(**row))


def bad_cell(window: int) -> CellVerdict:
    return CellVerdict(
        key=CellKey("clicks", 1, window, "web-<b>7", "00112233445566aa"),
        state=State.MIXED,
        claimed=100,
        observed=96,
        missing=RangeSet.from_list([10, 12, 40, 40]),
        missing_count=4,
        duplicates=1,
        copies=(Copy(1, 777, 55),),
    )


def verdict(topic: str, window: int, state: State, **sums: Any) -> Verdict:
    cells = (bad_cell(window),) if state is State.MIXED else ()
    return Verdict(EDGE, topic, window, state, cells=cells, **sums)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(data_dir=tmp_path)


@pytest.fixture
def store(deployment: Deployment) -> Iterator[Store]:
    with open_store(deployment.audit_store) as store:
        yield store


@pytest.fixture
def filled(store: Store) -> Store:
    healthy = [
        verdict("views", NOON + i * W, State.COMPLETE, claimed=10, observed=10) for i in range(5)
    ]
    mixed = verdict(
        "clicks", NOON, State.MIXED, claimed=99_999, observed=99_995, missing=4, duplicates=1
    )
    calm = verdict("clicks", NOON, State.COMPLETE, claimed=99_999, observed=99_999)
    with store.write() as connection:
        record_verdicts(connection, [*healthy, calm], COLLECTOR, NOON + 10 * W)
        record_verdicts(connection, [mixed], SPARK, NOON + 11 * W)
        row: Row = {**verdict_row(mixed), "cells": cells_of()}
        place = {
            "cluster": "dc1", "topic": "clicks", "partition": 1, "first_offset": 500,
            "last_offset": 502, "first_sequence": 10, "last_sequence": 12,
        }  # fmt: skip
        locate_cells(connection, row, {0: [place]})
        connection.execute(
            incidents.insert().values(
                cluster="aggregate", topic="clicks", partition=1, from_offset=90, to_offset=120,
                at=NOON, kind="truncated", reason="the log was cut",
            )
        )  # fmt: skip
        connection.execute(
            reporters.insert().values(
                cluster="dc1", reporter="r1", kind="producer", tier="producer", server="web-1",
                application="shop", first_seen=NOON, last_heard=NOON + W, complete_through=NOON,
            )
        )  # fmt: skip
        connection.execute(
            runs.insert().values(
                job="reconcile", started_at=NOON, finished_at=NOON + 12_500, outcome="discrepancies"
            )
        )
    return store


def verdict_row(verdict: Verdict) -> Row:
    return {
        "edge": verdict.edge,
        "topic": verdict.topic,
        "window": verdict.window,
        "source": SPARK,
        "revision": 0,
    }


def cells_of() -> list[Row]:
    from tallymark_audit.store.schema.rows import cell_to_json

    return [cell_to_json(bad_cell(NOON))]


@pytest.fixture
def client(filled: Store, deployment: Deployment) -> Iterator[TestClient]:
    with TestClient(create_app(deployment, filled)) as client:
        yield client
