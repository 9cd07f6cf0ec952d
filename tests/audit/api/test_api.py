"""The query API: what it answers, what it refuses and how, and how schedulers wait."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from eventually import eventually
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import asked, served

from tallymark.deployment import Deployment
from tallymark_audit.api import PREFIX, AuditApi, router
from tallymark_audit.api.params import cursor_of, moment, seconds
from tallymark_audit.api.waiting import Waits
from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey, Copy
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.schema.tables import (
    alerts,
    claims,
    collectors,
    metadata,
    observations,
    progress,
    reporters,
    watermarks,
)

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
W = 60_000
EDGE = "dc1-to-aggregate"


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(data_dir=tmp_path)


on_both = pytest.mark.parametrize("store", ["sqlite", "postgresql"], indirect=True)
"""The test runs on SQLite and on PostgreSQL."""


@pytest.fixture
def store(deployment: Deployment, request: pytest.FixtureRequest) -> Iterator[Store]:
    other = getattr(request, "param", "sqlite") == "postgresql"
    address = request.getfixturevalue("postgres") if other else deployment.audit_store
    with open_store(address) as store:
        yield store


def app_of(deployment: Deployment, store: Store) -> FastAPI:
    app = FastAPI()
    app.state.audit_api = AuditApi(deployment, store, Waits(store, most=3, poll_seconds=0.02))
    app.include_router(router, prefix=PREFIX)
    return app


@pytest.fixture
def client(deployment: Deployment, store: Store) -> Iterator[TestClient]:
    with TestClient(
        app_of(deployment, store), base_url=f"http://t{PREFIX}", raise_server_exceptions=False
    ) as client:
        yield client


def put(store: Store, table: Any, *rows: dict[str, Any]) -> None:
    with store.write() as connection:
        for row in rows:
            connection.execute(table.insert().values(**row))


def record(store: Store, *judged: Verdict) -> None:
    with store.write() as connection:
        record_verdicts(connection, judged, COLLECTOR, NOON)


def healthy(window: int, topic: str = "clicks", edge: str = EDGE) -> Verdict:
    return Verdict(edge, topic, window, State.COMPLETE, claimed=5, observed=5)


def lost(window: int, server: str = "web") -> Verdict:
    cell = CellVerdict(
        CellKey("clicks", 0, window, server, "00112233445566aa"),
        State.MIXED,
        claimed=5,
        observed=4,
        missing=RangeSet.single(3, 3),
        missing_count=1,
        duplicates=1,
        copies=(Copy(0, 77, 1),),
    )
    return Verdict(EDGE, "clicks", window, State.MIXED, 5, 4, 1, 1, cells=(cell,))


def mark(store: Store, through: int, topic: str = "clicks", edge: str = EDGE) -> None:
    with store.write() as connection:
        connection.execute(watermarks.delete().where(watermarks.c.topic == topic))
    row = {"edge": edge, "topic": topic, "through": through, "horizon": NOON, "at": NOON}
    put(store, watermarks, {**row, "holes": [[through, "LOSS", False]]})


# -- verdicts -----------------------------------------------------------------------------------


@on_both
def test_verdicts_are_filtered(client: TestClient, store: Store) -> None:
    record(store, lost(NOON), healthy(NOON + W), healthy(NOON, "views"), healthy(NOON, edge="x"))

    def found(**params: Any) -> list[tuple[str, str, int]]:
        rows = client.get("/verdicts", params=params).json()["verdicts"]
        return [(row["edge"], row["topic"], row["window"]) for row in rows]

    assert len(found()) == 4
    assert found(state=["LOSS", "MIXED"]) == [(EDGE, "clicks", NOON)]
    assert found(edge="x") == [("x", "clicks", NOON)]
    assert found(topic="views") == [(EDGE, "views", NOON)]
    assert found(**{"from": "2026-01-01T12:01Z"}) == [(EDGE, "clicks", NOON + W)]
    assert found(to=NOON + 1, topic="clicks", edge=EDGE) == [(EDGE, "clicks", NOON)]


@given(
    windows=st.sets(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.sampled_from("xy"))),
    limit=st.integers(1, 7),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_pages_hold_every_verdict_once(
    client: TestClient, store: Store, windows: set[tuple[int, str, str]], limit: int
) -> None:
    with store.write() as connection:
        connection.exec_driver_sql("DELETE FROM verdicts")
    record(store, *(healthy(NOON + n * W, topic, edge) for n, topic, edge in windows))
    found: list[tuple[int, str, str]] = []
    cursor = ""
    for _ in range(40):
        params: dict[str, Any] = {"limit": limit, "cursor": cursor}
        page = client.get("/verdicts", params=params).json()
        assert len(page["verdicts"]) <= limit
        found += [
            ((row["window"] - NOON) // W, row["topic"], row["edge"]) for row in page["verdicts"]
        ]
        if page["next"] is None:
            break
        cursor = page["next"]
    assert len(found) == len(windows)
    assert set(found) == windows
    assert [row[0] for row in found] == sorted((row[0] for row in found), reverse=True)


def test_evidence_names_what_is_missing_and_the_copies(client: TestClient, store: Store) -> None:
    record(store, lost(NOON))
    params: dict[str, Any] = {"edge": EDGE, "topic": "clicks", "window": "2026-01-01T12:00:00Z"}
    found = client.get("/evidence", params=params).json()
    (cell,) = found["verdicts"][0]["cells"]
    assert (cell["missing"], cell["copies"]) == ([3, 3], [[0, 77, 1]])
    assert set(found) == {
        "verdicts", "upstream", "downstream", "reporters", "history", "incidents", "repairs",
        "left_out", "other_hops", "was",
    }  # fmt: skip
    answer = client.get("/evidence", params={**params, "window": NOON + W})
    assert answer.status_code == 404


def cell_row(window: int, tier: str, **values: Any) -> dict[str, Any]:
    key = {"cluster": "dc1", "topic": "clicks", "window": window, "partition": 0}
    return {**key, "tier": tier, "server": "web", "instance": "aa", **values}


@on_both
def test_cells_come_in_whole_windows(client: TestClient, store: Store) -> None:
    for n in range(5):
        seen = {"seen_topic": "clicks", "count": 3, "ranges": [0, 2]}
        put(
            store,
            observations,
            cell_row(NOON + n * W, "cluster", seen_partition=0, **seen),
            cell_row(NOON + n * W, "cluster", seen_partition=1, **seen),
        )
    put(store, claims, cell_row(NOON, "producer", reporter="r", part=0, acknowledged=[0, 4]))
    where = {"cluster": "dc1", "topic": "clicks"}
    first = client.get("/cells", params={**where, "windows": 3}).json()
    assert [row["window"] for row in first["cells"]] == [NOON + n * W for n in (0, 0, 1, 1, 2, 2)]
    rest = client.get("/cells", params={**where, "windows": 3, "cursor": first["next"]}).json()
    assert [row["window"] for row in rest["cells"]] == [NOON + n * W for n in (3, 3, 4, 4)]
    assert rest["next"] is None
    said = client.get("/cells", params={**where, "tier": "producer"}).json()["cells"]
    assert [row["acknowledged"] for row in said] == [[0, 4]]
    assert client.get("/cells", params={**where, "to": NOON}).json()["cells"] == []


@pytest.mark.parametrize(("most", "pages"), [(1, 4), (5_000, 2)])
def test_cells_come_in_bounded_pages(
    client: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch, most: int, pages: int
) -> None:
    monkeypatch.setattr("tallymark_audit.api.judged.MAX_CELLS", most)
    for n in range(4):
        put(store, claims, cell_row(NOON + n * W, "producer", reporter="r", part=0))
    found: list[int] = []
    cursor, asked = "", 0
    while asked == 0 or cursor:
        asked += 1
        where: dict[str, Any] = {"cluster": "dc1", "topic": "clicks", "tier": "producer"}
        page = client.get("/cells", params={**where, "windows": 4, "cursor": cursor}).json()
        found += [row["window"] for row in page["cells"]]
        cursor = page["next"] or ""
    assert found == [NOON + n * W for n in range(4)]
    assert asked == pages


@on_both
@pytest.mark.parametrize("tier", ["cluster", "producer"])
def test_the_cells_of_one_large_window_come_in_pages(
    client: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch, tier: str
) -> None:
    """Pages held whole windows: one with 50,000 forged runs was one answer."""
    monkeypatch.setattr("tallymark_audit.api.judged.MAX_CELLS", 7)
    table = observations if tier == "cluster" else claims
    where = {"seen_topic": "clicks", "seen_partition": 0} if tier == "cluster" else {"part": 0}
    names = {(n, f"{chr(97 + k)}{n}") for n in range(3) for k in range(10)}
    for window, server in names:
        who = {} if tier == "cluster" else {"reporter": server}
        key = cell_row(NOON + window * W, tier, **where, **who)
        put(store, table, key | {"server": server, "instance": "b"})
    found: list[tuple[int, str]] = []
    cursor, pages = "", list[int]()
    while not pages or cursor:
        asked = {"cluster": "dc1", "topic": "clicks", "tier": tier, "cursor": cursor}
        page = client.get("/cells", params=asked).json()
        pages.append(len(page["cells"]))
        found += [((row["window"] - NOON) // W, row["server"]) for row in page["cells"]]
        cursor = page["next"] or ""
    assert found == sorted(names)
    assert max(pages) <= 7


def test_an_answer_is_bounded_in_bytes(store: Store, client: TestClient) -> None:
    """A few cells of ten thousand ranges each are as large as many cells."""
    ranges = [x for n in range(10_000) for x in (2 * n, 2 * n)]
    for n in range(80):
        seen = {"seen_topic": "clicks", "seen_partition": 0, "ranges": ranges}
        put(store, observations, cell_row(NOON, "cluster", **seen) | {"server": f"{n:02}"})
    record(store, healthy(NOON, edge="producer-to-dc1"))
    where: dict[str, Any] = {"edge": "producer-to-dc1", "topic": "clicks", "window": NOON}
    answer = client.get("/evidence", params=where)
    assert len(answer.content) < 8 << 20
    told = answer.json()
    assert told["left_out"] == {"downstream": 80 - len(told["downstream"])}
    assert told["downstream"]
    many = {"cluster": "dc1", "topic": "clicks"}
    for n in range(80, 160):
        seen = {"seen_topic": "clicks", "seen_partition": 0, "ranges": ranges}
        put(store, observations, cell_row(NOON, "cluster", **seen) | {"server": f"{n:03}"})
    page = client.get("/cells", params=many)
    assert len(page.content) < 24 << 20
    assert page.json()["next"]


@on_both
@pytest.mark.parametrize("path", ["/overview?limit=2", f"/overview?limit=2&from={NOON}"])
def test_the_overview_in_pages(client: TestClient, store: Store, path: str) -> None:
    """Each page read and sorted all topics. Databases sort names in orders of their own."""
    names = ["b", "A", "é", "_", "a"]
    record(store, *(healthy(NOON, topic=name) for name in names))
    found = list[str]()
    while path:
        answer = client.get(path)
        found += [one["topic"] for one in answer.json()]
        link = answer.headers.get("link", "")
        path = "/overview" + link[link.index("?") : link.index(">")] if link else ""
    assert len(found) == len(names)
    assert set(found) == set(names)


@on_both
def test_reporters_and_alerts_in_pages(client: TestClient, store: Store) -> None:
    """A producer had been dead for an hour, and the API listed it among those that are alive."""
    now = time.time_ns() // 1_000_000
    told = {"kind": "producer", "seen": [0, 9], "ahead": [], "last_heard": now}
    for n in range(5):
        put(store, reporters, {"cluster": "dc1", "reporter": f"r{n}", "closed": n == 4, **told})
    told["last_heard"] = now - 3_600_000
    put(store, reporters, {"cluster": "dc1", "reporter": "r0-silent", **told})
    for n in range(5):
        alert = {"fingerprint": f"f{n}", "starts_at": n // 2, "labels": {"topic": "t"}}
        status = "firing" if n else "resolved"
        put(store, alerts, {**alert, "status": status, "annotations": {}})
    page = client.get("/reporters?limit=3&live=true").json()
    assert [row["reporter"] for row in page["reporters"]] == ["r0", "r1", "r2"]
    assert "seen" not in page["reporters"][0]
    page = client.get(f"/reporters?limit=3&live=true&cursor={page['next']}").json()
    assert [row["reporter"] for row in page["reporters"]] == ["r3"]
    assert client.get("/reporters?kind=mirror").json() == {"reporters": [], "next": None}
    page = client.get("/alerts?status=firing&limit=2").json()
    assert [row["fingerprint"] for row in page["alerts"]] == ["f4", "f2"]
    page = client.get(f"/alerts?status=firing&limit=2&cursor={page['next']}").json()
    assert [row["fingerprint"] for row in page["alerts"]] == ["f3", "f1"]


# -- tags and problems --------------------------------------------------------------------------

ALL = (
    "/overview", "/verdicts", "/cells?cluster=dc1&topic=clicks", "/watermarks",
    f"/evidence?edge={EDGE}&topic=clicks&window={NOON}", "/reporters", "/alerts",
    f"/watermarks/{EDGE}/clicks", f"/totals?topic=clicks&start={NOON}&end={NOON + W}",
    "/incidents", "/incidents/1", "/incidents/1/windows", "/log-events", "/runs", "/repairs",
    "/decisions", "/disagreements", "/groups", "/collectors", "/progress",
    f"/buckets?from={NOON}&to={NOON + W}", f"/pulse?from={NOON}&to={NOON + W}", "/topics",
    f"/latency?from={NOON}&to={NOON + W}",
    f"/lateness?counter=dc1&topic=clicks&from={NOON}&to={NOON + W}",
    f"/repairability?edge={EDGE}&topic=clicks&window={NOON}",
)  # fmt: skip


@pytest.mark.soak_cases(*ALL[1::2])
@pytest.mark.parametrize("path", ALL)
def test_what_has_not_changed_is_not_sent_again(
    client: TestClient, store: Store, path: str
) -> None:
    record(store, lost(NOON))
    mark(store, NOON)
    counted(store, "dc1", NOON + W)
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    tag = answer.headers["etag"]
    for tags in (tag, f'"other", W/{tag}', "*"):
        again = client.get(path, headers={"If-None-Match": tags})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_tag_changes_with_the_answer(client: TestClient, store: Store) -> None:
    tag = client.get("/verdicts").headers["etag"]
    record(store, lost(NOON))
    answer = client.get("/verdicts", headers={"If-None-Match": tag})
    assert answer.status_code == 200
    assert answer.headers["etag"] != tag


BAD = (
    "/verdicts?from=yesterday", "/verdicts?from=1969-12-31", "/verdicts?limit=0",
    "/verdicts?limit=1001", "/verdicts?state=GREEN", "/verdicts?cursor=zzz",
    "/verdicts?cursor=WzFd",
    f"/verdicts?to={'9' * 40}", f"/verdicts?edge={'x' * 400}", "/verdicts?from=%C2%B2",
    f"/verdicts?cursor={cursor_of([2**70, 'a', 'b'])}", "/cells?cluster=dc1", "/cells?topic=t",
    "/cells?cluster=a&topic=b&tier=pond", "/cells?cluster=a&topic=b&windows=5000", "/evidence",
    "/evidence?edge=a&topic=b&window=x", f"/watermarks/{EDGE}/t?complete_through=x",
    f"/watermarks/{EDGE}/t?wait=1h", f"/watermarks/{EDGE}/t?wait=301s", "/totals?topic=t",
    f"/totals?topic=t&start={NOON}&end={NOON}", f"/totals?topic=t&start={NOON + 1}&end={NOON + W}",
    f"/totals?topic=t&start=0&end={NOON}", "/reporters?kind=cat", "/reporters?cursor=WzFd",
    "/alerts?status=loud", "/alerts?cursor=%FF", "/incidents?state=RED", "/incidents?kind=OPEN",
    "/incidents/0", "/incidents/x", f"/incidents/{2**63}", "/log-events?kind=%00", "/runs?from=x",
    f"/log-events?{'&'.join(['kind=a'] * 21)}", "/buckets?bucket=1y", "/buckets?bucket=0s",
    f"/buckets?from={NOON}&to={NOON}", f"/buckets?from=0&to={NOON}&bucket=1m", "/lateness?topic=t",
    f"/pulse?from={NOON}&to=0", "/progress?cursor=WzFd", "/decisions?action=delete",
)  # fmt: skip


@pytest.mark.parametrize("path", BAD)
def test_a_bad_request_is_told_what_is_wrong_with_it(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["detail"]
    assert problem["do"]
    assert problem["status"] == 422


@pytest.mark.parametrize("path", ["/nothing", "/watermarks/a/b/c", f"/watermarks/{EDGE}/gone"])
def test_what_is_not_there(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json()["title"] == "Not Found"


def test_a_store_that_is_away(client: TestClient, store: Store) -> None:
    with store.write() as connection:
        for table in metadata.tables:
            connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO hidden_{table}")
    for path in ALL:
        answer = client.get(path)
        assert answer.status_code == 503, path
        assert answer.headers["retry-after"] == "2"
        assert "Traceback" not in answer.text
        assert answer.json()["status"] == 503


def test_an_error_of_ours_is_no_traceback(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("tallymark_audit.store.reading.paging.verdict_page", fail)
    answer = client.get("/verdicts")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "secret" in caplog.text


def test_whatever_a_producer_is_called_can_be_said(client: TestClient, store: Store) -> None:
    """A server name that is no UTF-8 made the answer an error 500."""
    record(store, lost(NOON, server="web\udcff\x00<b>"))
    found = client.get(f"/evidence?edge={EDGE}&topic=clicks&window={NOON}")
    assert json.loads(found.text)["verdicts"][0]["cells"][0]["server"] == "web\udcff\x00<b>"


@given(st.text(max_size=60))
def test_any_text_is_a_time_or_none(text: str) -> None:
    for parse in (moment, seconds):
        with suppress(ValueError):
            assert parse(text) >= 0


def test_every_parameter_is_described(client: TestClient) -> None:
    described = client.get(f"http://t{'/openapi.json'}").json()
    paths = {path: one for path, one in described["paths"].items() if path.startswith(PREFIX)}
    assert len(paths) == 42
    for path, one in paths.items():
        assert one["get"]["description"], path
        for parameter in one["get"].get("parameters", ()):
            assert parameter.get("description"), (path, parameter["name"])


# -- waiting ------------------------------------------------------------------------------------

LATE = f"/watermarks/{EDGE}/clicks?complete_through={NOON + W}"


def test_a_watermark_tells_its_holes(client: TestClient, store: Store) -> None:
    mark(store, NOON)
    found = client.get(f"/watermarks/{EDGE}/clicks").json()
    assert found["holes"] == [{"window": NOON, "state": "LOSS", "accepted": False}]
    assert "complete" not in found
    rows = client.get(f"/watermarks?topic=clicks&edge={EDGE}&limit=1").json()
    assert rows["watermarks"] == [found]
    assert client.get(f"/watermarks?cursor={rows['next']}").json()["watermarks"] == []


def test_groups_may_have_any_name(client: TestClient, store: Store) -> None:
    edge = "dc1-to-group:a/b c"
    mark(store, NOON, edge=edge)
    assert client.get(f"/watermarks/{edge}/clicks").json()["edge"] == edge


def test_without_waiting_the_answer_is_at_once(client: TestClient, store: Store) -> None:
    mark(store, NOON)
    assert client.get(LATE).json()["complete"] is False
    mark(store, NOON + W)
    assert client.get(LATE).json()["complete"] is True
    assert client.get(f"{LATE}&wait=300s").json()["complete"] is True


def test_when_the_wait_is_over_it_says_how_far_it_is(client: TestClient, store: Store) -> None:
    mark(store, NOON)
    found = client.get(f"{LATE}&wait=100ms").json()
    assert (found["complete"], found["through"]) == (False, NOON)
    assert client.get(f"/watermarks/{EDGE}/gone?complete_through=5&wait=50ms").status_code == 404


def test_one_look_at_the_store_is_for_all_who_wait(deployment: Deployment, store: Store) -> None:
    """Each waiter polled for itself: a hundred sensors were a hundred queries a second."""
    mark(store, NOON)
    waits = Waits(store, most=50, poll_seconds=0.02)

    async def scenario() -> tuple[int, int]:
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (EDGE, "clicks")
        tasks = [asyncio.create_task(waits.until(place, NOON + W, gone)) for _ in range(50)]
        while waits.looks < 5:
            await asyncio.sleep(0.01)
        looks = waits.looks
        await asyncio.to_thread(mark, store, NOON + W)
        await asyncio.gather(*tasks)
        await asyncio.sleep(0.1)
        after = waits.looks
        await asyncio.sleep(0.2)
        assert waits.looks == after, "nobody waits, and still it looks"
        return looks, len(waits)

    looks, left = asyncio.run(scenario())
    assert looks < 50
    assert left == 0


def waits_of(app: FastAPI) -> Waits:
    api: AuditApi = app.state.audit_api
    return api.waits


def ask(url: str, found: list[Any]) -> threading.Thread:
    def run() -> None:
        found.append(httpx.get(url, timeout=60).json())

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_those_who_wait_are_told_as_soon_as_it_is_complete(
    deployment: Deployment, store: Store
) -> None:
    mark(store, NOON)
    app, found = app_of(deployment, store), list[Any]()
    waits = waits_of(app)
    with served(app, waits_of(app).stop) as url:
        threads = [ask(f"{url}{PREFIX}{LATE}&wait=60s", found) for _ in range(3)]
        eventually(lambda: len(waits) == 3)
        full = httpx.get(f"{url}{PREFIX}{LATE}&wait=60s", timeout=60)
        assert (full.status_code, full.headers["retry-after"]) == (503, "2")
        mark(store, NOON + W)
        for thread in threads:
            thread.join()
    assert [one["complete"] for one in found] == [True] * 3


def test_who_hangs_up_waits_no_more(deployment: Deployment, store: Store) -> None:
    mark(store, NOON)
    app = app_of(deployment, store)
    waits = waits_of(app)
    with served(app, waits_of(app).stop) as url:
        with asked(url, f"{PREFIX}{LATE}&wait=300s"):
            eventually(lambda: len(waits) == 1)
        eventually(lambda: len(waits) == 0)


def test_a_server_that_stops_lets_all_go(deployment: Deployment, store: Store) -> None:
    mark(store, NOON)
    app, found = app_of(deployment, store), list[Any]()
    with served(app, waits_of(app).stop) as url:
        thread = ask(f"{url}{PREFIX}{LATE}&wait=300s", found)
        eventually(lambda: len(waits_of(app)) == 1)
        waits_of(app).stop()
        thread.join()
    assert found[0]["complete"] is False


def test_a_store_that_is_away_for_a_while_wakes_nobody_for_nothing(store: Store) -> None:
    mark(store, NOON)
    waits = Waits(store, poll_seconds=0.01)

    def rename(one: str, other: str) -> None:
        with store.write() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {one} RENAME TO {other}")

    async def scenario() -> None:
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await asyncio.to_thread(rename, "watermarks", "hidden")
        task = asyncio.create_task(waits.until((EDGE, "clicks"), NOON, gone))
        looks = waits.looks
        while waits.looks < looks + 3:
            await asyncio.sleep(0.01)
        assert not task.done()
        await asyncio.to_thread(rename, "hidden", "watermarks")
        await task

    asyncio.run(scenario())


# -- totals -------------------------------------------------------------------------------------


def counted(store: Store, cluster: str, through: int) -> None:
    place = {"cluster": cluster, "topic": "clicks", "partition": 0}
    put(store, progress, {**place, "counted_through": through})
    put(store, collectors, {"cluster": cluster, "discovered_through": through})


def gobblin(text: str) -> dict[str, int]:
    """As AuditCountHttpClient.parseResponse reads it: an object of that name whose values are read
    as text and parsed as Java's long, which takes no fraction and no exponent."""
    found: dict[str, int] = {}
    for tier, value in json.loads(text, parse_float=pytest.fail)["totalsPerTier"].items():
        assert not isinstance(value, bool)
        assert -(2**63) <= int(str(value)) < 2**63
        found[tier] = int(str(value))
    return found


def hour_of(client: TestClient) -> Any:
    base = f"http://t{PREFIX}/totals"
    return client.get(f"{base}?topic=clicks&start={NOON}&end={NOON + 60 * W}")


@on_both
def test_gobblin_reads_totals_by_tier(client: TestClient, store: Store) -> None:
    """A message that is there twice counts once, or it would make up for one that is missing."""
    end = NOON + 60 * W
    counted(store, "dc1", end)
    counted(store, "aggregate", end)
    put(store, claims, cell_row(NOON, "producer", reporter="r", acknowledged=[0, 99]))
    seen = {"seen_topic": "clicks", "seen_partition": 0}
    put(store, observations, cell_row(NOON, "cluster", **seen, count=100, ranges=[0, 99]))
    twice = {**cell_row(NOON, "cluster", **seen, count=100, ranges=[0, 98]), "cluster": "aggregate"}
    put(store, observations, twice)
    row = {"edge": "producer-to-dc1", "topic": "clicks", "through": 0, "horizon": end, "at": 0}
    put(store, watermarks, {**row, "holes": []})
    assert gobblin(hour_of(client).text) == {
        "producer": 100,
        "producer-to-dc1": 100,
        "dc1": 100,
        "aggregate": 99,
    }


def test_a_tier_that_is_still_being_counted_is_left_out(client: TestClient, store: Store) -> None:
    """Half a count upstream made half the data downstream look complete."""
    end = NOON + 60 * W
    counted(store, "dc1", end - 1)
    assert hour_of(client).status_code == 503
    counted(store, "aggregate", end)
    row = {"edge": "producer-to-dc1", "topic": "clicks", "through": 0, "horizon": end - W, "at": 0}
    put(store, watermarks, {**row, "holes": []})
    assert gobblin(hour_of(client).text) == {"aggregate": 0}


def test_of_an_unknown_topic_there_is_no_count(client: TestClient) -> None:
    """An empty answer reads as "nothing to wait for" where Gobblin is told so."""
    assert hour_of(client).status_code == 404


PATHS = (
    "overview", "verdicts", "cells", "evidence", "reporters", "alerts", "watermarks", "totals",
    "incidents", "log-events", "runs", "repairs", "decisions", "disagreements", "groups", "age",
    "collectors", "progress", "buckets", "pulse", "topics", "latency", "lateness", "repairability",
)  # fmt: skip
PARAMETERS = (
    "edge", "topic", "state", "from", "to", "limit", "cursor", "cluster", "tier", "windows",
    "window", "kind", "live", "status", "start", "end", "complete_through", "find", "bucket", "job",
    "action", "outcome", "group", "counter",
)  # fmt: skip
VALUES = st.one_of(
    st.text(max_size=20),
    st.integers().map(str),
    st.sampled_from(["\x00", "9" * 30, "-1", "1e9", "2026-01-31", "LOSS", "cluster", "true", EDGE]),
    st.lists(st.one_of(st.integers(), st.text(max_size=5), st.none())).map(cursor_of),
)


@on_both
@given(
    path=st.sampled_from([*PATHS, *(f"watermarks/{EDGE}/{name}" for name in ("t", "%00", "%ff"))]),
    csv=st.booleans(),
    query=st.dictionaries(st.sampled_from(PARAMETERS), VALUES, max_size=6),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
def test_whatever_is_asked_is_answered(
    client: TestClient, store: Store, path: str, csv: bool, query: dict[str, str]
) -> None:
    """A name with a zero byte was an error of PostgreSQL's, told as a store that is away."""
    answer = client.get(f"/{path}{'.csv' if csv else ''}", params=query)
    assert answer.status_code in (200, 404, 422), (answer.status_code, answer.text)
    assert answer.status_code == 200 or answer.json() is not None
