"""Every list as JSON and as CSV, on a store with one of each fault and with hostile names."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prepared_store import Prepared, deployment_in, prepare

from tallymark.clock import now_ms
from tallymark_audit.api import PREFIX, AuditApi, lists, router
from tallymark_audit.store import open_store

LISTS = (
    "overview", "verdicts", "reporters", "groups", "collectors", "progress", "incidents", "alerts",
    "log-events", "runs", "repairs", "decisions", "disagreements", "buckets", "topics", "latency",
    "edges", "heat", "heat?find=payments&bucket=1h", "watermarks",
    "cells?cluster=dc1&topic=orders", "cells?cluster=dc1&topic=orders&tier=producer",
    "lateness?counter=dc1&topic=orders", "reporters?topic=orders", "lake-tables",
    "hops?topic=orders", "disagreements?from=12h",
)  # fmt: skip
OTHERS = ("age", "pulse")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    deployment = deployment_in(tmp_path_factory.mktemp("store"))
    with open_store(deployment.audit_store) as store:
        yield prepare(store, deployment, now_ms(), hours=12)


@pytest.fixture(scope="module")
def client(prepared: Prepared) -> Iterator[TestClient]:
    app = FastAPI()
    app.state.audit_api = AuditApi.of(prepared.deployment, prepared.store)
    app.include_router(router, prefix=PREFIX)
    with TestClient(app, base_url=f"http://t{PREFIX}") as client:
        yield client


def table(client: TestClient, path: str, **headers: str) -> list[dict[str, str]]:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["vary"] == "Accept"
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def rows_of(path: str, told: Any) -> list[dict[str, Any]]:
    if isinstance(told, list):
        return told
    name = path.partition("?")[0].replace("-", "_")
    found: list[dict[str, Any]] = told[name]
    return found


def resolved(client: TestClient, path: str) -> dict[str, Any]:
    """The schema of the answer in the OpenAPI document."""
    document = client.get("http://t/openapi.json").json()
    name = f"{PREFIX}/{path.partition('?')[0]}"
    content = document["paths"][name]["get"]["responses"]["200"]["content"]
    found: dict[str, Any] = content["application/json"]["schema"]
    return found


@pytest.mark.parametrize("path", [*LISTS, *OTHERS])
def test_every_field_of_an_answer_is_described(client: TestClient, path: str) -> None:
    told, schema = client.get(path).json(), resolved(client, path)
    check(told, schema, path)


def check(value: Any, schema: dict[str, Any], where: str) -> None:
    if schema.get("type") == "array":
        for one in value:
            check(one, schema["items"], where)
    elif schema.get("properties") and value is not None:
        others = set(value) - set(schema["properties"])
        assert not others, f"{where}: {others} are not described"
        assert set(schema["required"]) <= set(value), where
        for name, one in schema["properties"].items():
            assert one.get("description") or one.get("items") or one.get("properties"), name
            if name in value:
                check(value[name], one, f"{where}.{name}")


@pytest.mark.parametrize("path", LISTS)
def test_csv_has_the_rows_of_json(client: TestClient, path: str) -> None:
    name, _, query = path.partition("?")
    rows, cursor = list[dict[str, Any]](), ""
    while True:
        told = client.get(f"{path}{'&' if query else '?'}cursor={cursor}").json()
        rows += rows_of(path, told)
        cursor = told.get("next") or "" if isinstance(told, dict) else ""
        if not cursor:
            break
    lines = table(client, f"{name}.csv?{query}")
    assert len(lines) == len(rows)
    assert table(client, path, accept="text/csv") == lines
    texts = {one for row in rows for one in row.values() if isinstance(one, str) and one.isalnum()}
    assert texts <= {one for line in lines for one in line.values()}
    assert not any(one.startswith(("=", "+", "@")) for line in lines for one in line.values())


@pytest.mark.parametrize("path", LISTS)
def test_what_is_one_page_has_a_tag(client: TestClient, path: str) -> None:
    name, _, query = path.partition("?")
    answer = client.get(f"{name}.csv?{query}")
    if "etag" not in answer.headers:
        pytest.skip("it is more than a page, and sent as it is read")
    again = client.get(f"{name}.csv?{query}", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(path).headers["etag"] != answer.headers["etag"]


@pytest.mark.parametrize(
    ("accept", "is_csv"),
    [
        ("text/csv", True),
        ("text/csv, application/json;q=0.9", True),
        ("text/csv;q=0.4, application/json", False),
        ("text/csv;q=0", False),
        ("*/*", False),
        ("application/json", False),
        ("text/csv;q=loud", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
    ],
)
def test_csv_is_for_whom_prefers_it(client: TestClient, accept: str, is_csv: bool) -> None:
    kind = client.get("runs", headers={"accept": accept}).headers["content-type"]
    assert kind.startswith("text/csv") == is_csv


def test_a_long_list_is_sent_as_it_is_read(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = table(client, "verdicts.csv")
    assert len(whole) > 100
    monkeypatch.setattr(lists, "AT_ONCE", 7)
    answer = client.get("verdicts.csv")
    assert "etag" not in answer.headers
    assert answer.headers["cache-control"] == "no-cache"
    assert list(csv.DictReader(io.StringIO(answer.text, newline=""))) == whole


def test_a_list_that_is_too_long_says_where_it_was_cut(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = table(client, "verdicts.csv")
    monkeypatch.setattr(lists, "AT_ONCE", 10)
    monkeypatch.setattr(lists, "MOST_LINES", 25)
    *lines, last = table(client, "verdicts.csv")
    assert lines == whole[:25]
    note = next(iter(last.values()))
    assert note.startswith("# the first 25 rows; the others: cursor=")
    cursor = note.partition("cursor=")[2]
    monkeypatch.undo()
    assert table(client, f"verdicts.csv?cursor={cursor}") == whole[25:]


def test_a_page_of_csv_names_the_next(client: TestClient) -> None:
    answer = client.get("verdicts.csv?limit=20")
    link = answer.headers["link"]
    assert link.endswith('>; rel="next"')
    following = table(client, "verdicts.csv" + link[link.index("?") : link.index(">")])
    assert len(following) == 20
    assert following == table(client, "verdicts.csv")[20:40]


def test_errors_of_csv_are_problems_too(client: TestClient) -> None:
    answer = client.get("verdicts.csv?limit=0")
    assert (answer.status_code, answer.headers["content-type"]) == (
        422,
        "application/problem+json",
    )
    assert client.get("nothing.csv").status_code == 404


def test_incidents_from_first_sight_to_repair(client: TestClient, prepared: Prepared) -> None:
    """A repaired loss had left the pages, and no link led back to it."""
    (loss,) = client.get("incidents?topic=orders").json()["incidents"]
    assert (loss["kind"], loss["state"], loss["missing"]) == ("LOSS", "REPAIRED", 0)
    assert loss["worst_missing"] == 12
    one = client.get(f"incidents/{loss['id']}").json()
    assert one["incident"] == loss
    assert [window["window"] for window in one["windows"]] == [prepared.repaired]
    kinds = {moment["kind"] for moment in one["timeline"]}
    assert {"verdict", "repair"} <= kinds
    times = [moment["at"] for moment in one["timeline"]]
    assert times == sorted(times)
    windows = client.get(f"incidents/{loss['id']}/windows").json()
    assert windows["windows"] == one["windows"]
    assert client.get("incidents/999999").status_code == 404
    assert client.get("incidents/0").status_code == 422


def test_every_field_of_the_evidence_is_described(client: TestClient, prepared: Prepared) -> None:
    for edge, topic, window in (
        ("producer-to-dc2", "payments", prepared.gone),
        ("dc2-to-aggregate", "clicks", prepared.doubled),
        ("dc1-to-aggregate", "orders", prepared.repaired),
    ):
        where: dict[str, Any] = {"edge": edge, "topic": topic, "window": window}
        told = client.get("evidence", params=where).json()
        check(told, resolved(client, "evidence"), f"evidence of {topic}")
    assert any(cell["missing"] for cell in told["verdicts"][0]["cells"]) == bool(
        told["verdicts"][0]["missing"]
    )


def test_what_can_be_repaired(client: TestClient, prepared: Prepared) -> None:
    """A loss of which nothing is left was offered a repair that could do nothing."""
    gone: dict[str, Any] = {"edge": "producer-to-dc2", "topic": "payments", "window": prepared.gone}
    told = client.get("repairability", params=gone).json()
    assert (told["repairable"], told["of"]) == (0, 7)
    assert sum(one["count"] for one in told["others"]) == 7
    commands = [one["command"] for one in told["steps"]]
    assert not any("repair" in one for one in commands)
    assert any(one.startswith("tallymark audit accept") for one in commands)
    check(told, resolved(client, "repairability"), "repairability")
    assert client.get("repairability", params={**gone, "window": 1}).status_code == 404


def test_every_row_adds_up(client: TestClient) -> None:
    names = ("observed", "pending", "missing", "explained")
    paths = ("overview", "verdicts", "verdicts?state=OPEN&state=SETTLING", "topics", "buckets")
    for path in paths:
        for row in rows_of(path, client.get(path).json()):
            assert row["claimed"] == sum(row[name] for name in names), (path, row)
    told = client.get("pulse").json()
    assert told["claimed"] == sum(told[name] for name in names)
    young = client.get("verdicts?state=OPEN&state=SETTLING").json()["verdicts"]
    assert not any(row["missing"] for row in young)


def test_buckets_are_as_long_as_asked(client: TestClient, prepared: Prepared) -> None:
    day = f"from={prepared.now - 86_400_000}&to={prepared.now}"
    hours = client.get(f"buckets?{day}&bucket=1h&topic=orders").json()
    assert hours["bucket_ms"] == 3_600_000
    assert all(row["start"] % 3_600_000 == 0 for row in hours["buckets"])
    whole = client.get(f"pulse?{day}&topic=orders").json()
    assert sum(row["missing"] for row in hours["buckets"]) == whole["missing"]
    told = client.get(f"buckets?{day}").json()
    assert 86_400_000 / told["bucket_ms"] <= 200
    assert client.get(f"buckets?{day}&bucket=1ms").status_code == 422
    assert client.get("buckets?bucket=0").status_code == 422
    assert client.get("buckets?from=5&to=5").status_code == 422


def test_a_page_of_the_heatmap_may_end_within_a_topic(client: TestClient) -> None:
    whole = client.get("heat?bucket=1h&limit=1000").json()["heat"]
    rows, cursor = list[dict[str, Any]](), ""
    while True:
        told = client.get(f"heat?bucket=1h&limit=7&cursor={cursor}").json()
        rows += told["heat"]
        cursor = told["next"]
        if not cursor:
            break
        assert len(told["heat"]) == 7
    assert rows == whole
    assert len({(row["topic"], row["start"]) for row in rows}) == len(rows) > 50


def test_cells_of_the_heatmap_add_up_to_the_sums_of_the_topics(client: TestClient) -> None:
    cells = client.get("heat?from=12h&bucket=10m&limit=1000").json()["heat"]
    for topic in client.get("topics?from=12h").json()["topics"]:
        of_topic = [cell for cell in cells if cell["topic"] == topic["topic"]]
        hops = topic["hops"]
        for name in ("missing", "duplicates", "unclaimed", "bad", "windows"):
            assert sum(cell[name] for cell in of_topic) == sum(hop[name] for hop in hops), name
    assert all((cell["window"] >= 0) == bool(cell["edge"]) for cell in cells)
    assert client.get("heat?from=12h&bucket=1ms").status_code == 422


def test_the_edges_are_those_of_the_settings(client: TestClient, prepared: Prepared) -> None:
    edges = {one["edge"]: one for one in client.get("edges?from=12h").json()["edges"]}
    assert {"producer-to-dc1", "dc1-to-aggregate"} <= set(edges)
    totals = client.get("pulse?from=12h").json()
    assert sum(one["missing"] for one in edges.values()) >= totals["missing"] > 0
    assert edges["dc1-to-aggregate"]["upstream"] == "dc1"


def test_alerts_tell_of_a_pause(client: TestClient, prepared: Prepared) -> None:
    assert client.get("alerts").json()["paused_until"] is None
    with prepared.store.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO meta (key, value) VALUES ('alerts_paused_until', '99999999999999')"
        )
    assert client.get("alerts").json()["paused_until"] == 99_999_999_999_999
    with prepared.store.write() as connection:
        connection.exec_driver_sql("DELETE FROM meta WHERE key = 'alerts_paused_until'")


def test_the_age_of_the_audit(client: TestClient) -> None:
    """With every collector stopped all stayed green."""
    told = client.get("age").json()
    assert told["ok"] is not bool(told["behind"])
    assert client.get("collectors").json()["age"]["behind"] == told["behind"]
    json.dumps(told)


def test_a_page_may_end_at_a_name_that_does_not_print(
    client: TestClient, prepared: Prepared
) -> None:
    """The cursor of a page was refused where the last topic had a character that changes the
    direction of text, or a space other than ours: the rows behind it could not be read."""
    whole = client.get("watermarks?limit=1000").json()["watermarks"]
    assert any(not one["topic"].isprintable() for one in whole)
    rows, cursor = list[dict[str, Any]](), ""
    while True:
        answer = client.get(f"watermarks?limit=1&cursor={cursor}")
        assert answer.status_code == 200, answer.text
        rows += answer.json()["watermarks"]
        cursor = answer.json()["next"]
        if not cursor:
            break
    assert rows == whole
    hostile = next(one["topic"] for one in whole if not one["topic"].isprintable())
    found = client.get("verdicts", params={"topic": hostile}).json()["verdicts"]
    assert {one["topic"] for one in found} == {hostile}
    assert client.get("verdicts?topic=%00").status_code == 422


def test_hops_of_a_topic_add_up_to_its_sums(client: TestClient) -> None:
    (topic,) = client.get("topics?from=12h&find=payments").json()["topics"]
    hops = client.get("hops?from=12h&topic=payments").json()["hops"]
    assert sum(one["missing"] for one in hops) == topic["missing"] == 7
    assert {one["edge"] for one in hops} == {one["edge"] for one in topic["hops"]}
    assert client.get("hops?topic=nothing").json()["hops"] == []
    assert client.get("hops").status_code == 422
