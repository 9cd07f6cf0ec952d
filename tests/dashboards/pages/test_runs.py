"""The list of runs, and one of them: what ran, how it ended, what it judged, who decided."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from page_text import text_of

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.trail import Doer
from tallymark_audit.decisions import Decider
from tallymark_audit.store import Store
from tallymark_audit.store.judged.decisions import (
    About,
    Decision,
    finish_decision,
    note_decision,
)
from tallymark_audit.store.schema.tables import repairs, reporters, runs

NOON = 1_767_268_800_000
W = 60_000
EDGE = "dc1-to-aggregate"
EVIL = "<script>alert(1)</script>\u202e"
ALICE = Doer("User:alice", "10.0.0.9", "dashboards")


def main_of(page: str) -> str:
    return text_of(page.partition("<main")[2])


def add_run(store: Store, **values: Any) -> int:
    line = {
        "edge": EDGE, "topic": "clicks", "state": "MIXED", "windows": 5, "claimed": 99_999,
        "observed": 99_995, "missing": 4, "duplicated": 1, "unclaimed": 0, "explained": 0,
    }  # fmt: skip
    row: dict[str, Any] = {
        "job": "reconcile", "started_at": now_ms() - 60_000, "finished_at": now_ms() - 47_500,
        "from_ms": NOON, "to_ms": NOON + W, "outcome": "discrepancies",
        "detail": {"edges": [line], "seconds": {"read": 3.5}, "damaged": [], "damaged_events": 2},
        **values,
    }  # fmt: skip
    with store.write() as connection:
        key = connection.execute(runs.insert().values(**row)).inserted_primary_key
    assert key is not None
    return int(key[0])


def test_all_that_ran_is_in_one_list(
    client: TestClient, filled: Store, deployment: Deployment
) -> None:
    add_run(filled)
    Decider(filled, deployment, ALICE).accept(EDGE, "clicks", NOON, "alice", EVIL)
    page = client.get("/runs").text
    text = main_of(page)
    assert "discrepancies" in text
    assert "12.5 s" in text
    assert "accept" in text
    assert "alice" in text
    assert text.index("accept") < text.index("reconcile"), "the newest first"
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_the_list_is_filtered(client: TestClient, filled: Store, deployment: Deployment) -> None:
    add_run(filled)
    Decider(filled, deployment, ALICE).pause(60_000)
    only = main_of(client.get("/runs?name=pause").text)
    assert "1 in" in only
    assert "discrepancies" not in only
    assert "No such run" in main_of(client.get("/runs?name=pause&outcome=discrepancies").text)
    wrong = client.get(f"/runs?name={EVIL}&page=abc&outcome=x")
    assert wrong.status_code == 200
    assert "page=abc is no number" in main_of(wrong.text)
    assert "there is no page 7: page 1 is shown" in main_of(client.get("/runs?page=7").text)


def test_an_empty_list_says_what_to_run(client: TestClient) -> None:
    assert "tallymark reconcile --all" in client.get("/runs?range=15m").text


def test_one_run_has_what_it_judged_and_where_the_counters_disagree(
    client: TestClient, filled: Store
) -> None:
    number = add_run(filled)
    text = main_of(client.get(f"/run?id=j{number}").text)
    assert "99,999" in text
    assert "read: 3.50 s" in text
    assert "2 monitoring events" in text
    assert "MIXED 4 missing" in text, "what Spark found"
    assert "COMPLETE 0 missing" in text, "what the collector found"
    other = add_run(filled, from_ms=NOON + W, to_ms=NOON + 2 * W)
    assert "Nowhere: both have the same result" in main_of(client.get(f"/run?id=j{other}").text)


@pytest.mark.parametrize("detail", [[], {}, {"edges": 5, "seconds": [1]}, {"edges": ["x"]}, None])
def test_the_detail_of_another_program_is_no_error(
    client: TestClient, filled: Store, detail: Any
) -> None:
    number = add_run(filled, detail=detail if detail is not None else "text", outcome=EVIL)
    page = client.get(f"/run?id=j{number}")
    assert page.status_code == 200
    assert "<script>alert" not in page.text


def test_a_repair_has_its_parts(client: TestClient, filled: Store) -> None:
    about = About(EDGE, "clicks", NOON, NOON + W)
    at = now_ms() - 5000
    with filled.write() as connection:
        begun = Decision(ALICE, "repair", about, outcome="running", finished=False)
        number = note_decision(connection, at, begun)
        for window in (NOON, NOON + W):
            connection.execute(
                repairs.insert().values(
                    at=at + 100, edge=EDGE, topic="clicks", window=window, server="web-1",
                    sequences=[1, 3], copied=3, outcome="repaired",
                )
            )  # fmt: skip
    going = main_of(client.get(f"/run?id=d{number}").text)
    assert "still running" in going
    with filled.write() as connection:
        detail = {"messages": 3, "copied": 3, "present": 0, "items": 1, "reasons": ["a reason"]}
        finish_decision(connection, number, at + 200, "repaired", detail)
    page = client.get(f"/run?id=d{number}")
    text = main_of(page.text)
    assert "3 copied, 0 were there, of 3 in 1 parts" in text
    assert "a reason" in text
    assert page.text.count('id="part-') == 1, "the other window is of another repair"


@pytest.mark.parametrize("key", ["", "j999", "d999", "x1", "j-1", "j" + "9" * 30, EVIL])
def test_a_run_that_is_not_there(client: TestClient, key: str) -> None:
    page = client.get("/run", params={"id": key})
    assert page.status_code == 404
    assert "<nav" in page.text
    assert "<script>alert" not in page.text


def test_tables_of_the_lake_have_their_last_load(client: TestClient, filled: Store) -> None:
    with filled.write() as connection:
        connection.execute(
            reporters.insert().values(
                cluster="aggregate", reporter="lake-clicks@1", kind="lake", tier="lake",
                server="etl-1", application="clicks", last_heard=NOON,
            )
        )  # fmt: skip
    text = main_of(client.get("/runs").text)
    assert "Tables of the lake" in text
    assert "2026-01-01T12:00:00Z" in text
    assert "etl-1" in text
