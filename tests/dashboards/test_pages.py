"""The pages say what the store says, escape what came from outside, and need nothing else."""

import io
import re
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from judged_world import heartbeats, publisher, steady, world_in
from memory_lake import MemoryLake
from page_text import text_of
from rich.console import Console
from sqlalchemy.exc import OperationalError

from tallymark.deployment import Deployment, LakeSettings
from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store import Store
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.reading import pulse, window_evidence
from tallymark_audit.store.schema.tables import observations
from tallymark_audit.tables import evidence_tables
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.view.topic_rows import short_time

NOON = 1_767_268_800_000
THAT_DAY = "/?from=2026-01-01&to=2026-01-02"
EVIDENCE = f"/window?edge=dc1-to-aggregate&topic=clicks&window={NOON}"


def test_the_overview_shows_the_worst_first_and_what_is_missing(client: TestClient) -> None:
    page = client.get(THAT_DAY)
    assert page.status_code == 200
    assert page.text.index("clicks") < page.text.index("views")
    text = text_of(page.text)
    assert "4 missing of 100,049 claimed" in text
    assert re.search(r"web-1 \? silent 2026-01-01T12:01:00Z shop", text)


def test_what_happened_to_the_logs_stands_with_the_incidents(client: TestClient) -> None:
    text = text_of(client.get("/incidents").text)
    assert "aggregate clicks -1 truncated 90–120 the log was cut" in text
    disagreement = text_of(client.get("/incidents?from=2026-01-01&to=2026-01-02").text)
    assert "± MIXED 4 missing, 1 duplicated ✓ COMPLETE 0 missing" in disagreement


@pytest.mark.usefixtures("as_of_now")
def test_99_99_percent_never_shows_as_100(client: TestClient) -> None:
    assert "99.99 %" in text_of(client.get(THAT_DAY).text)


@pytest.mark.parametrize("page", ["/window", "/fragment/window"])
@pytest.mark.parametrize("window", ["9" * 26, "-" + "9" * 26, "9" * 19, "9" * 5000, "noon", "²"])
def test_a_window_that_no_store_can_hold_is_a_page_that_does_not_exist(
    client: TestClient, page: str, window: str
) -> None:
    """A number of 26 digits in the address was an error of the database, shown as a traceback."""
    place = {"edge": "dc1-to-aggregate", "topic": "clicks", "window": window}
    found = client.get(page, params=place)
    assert found.status_code == 404
    assert found.headers["content-type"].startswith("text/html")
    assert "There is no such window" in found.text
    assert client.get("/api/v1/audit/evidence", params=place).status_code == 422


def test_a_page_shows_the_first_cells_and_says_how_many_there_are(
    client: TestClient, store: Store
) -> None:
    """Somebody stamped 50,000 runs into a window: its page was of 26 MB, and took 23 seconds."""
    with store.write() as connection:
        connection.execute(
            observations.insert(),
            [
                {
                    "tier": "cluster", "cluster": cluster, "topic": "clicks", "window": NOON,
                    "partition": 0, "server": f"host-{n}", "instance": f"{n:016x}",
                    "seen_topic": "clicks", "seen_partition": 0, "count": 1,
                    "ranges": [x for one in range(1_000) for x in (3 * one, 3 * one)],
                }
                for n in range(3_000)
                for cluster in ("dc1", "aggregate")
            ],
        )  # fmt: skip
    page = client.get(EVIDENCE)
    assert len(page.content) < 200_000
    assert re.search(r"and 2,9\d\d more", page.text)
    found = client.get(f"/api/v1/audit{EVIDENCE.replace('/window', '/evidence')}")
    assert len(found.content) < 12 << 20
    told = found.json()
    assert len(told["downstream"]) <= 500
    assert len(told["downstream"]) + told["left_out"]["downstream"] >= 3_000


@pytest.mark.usefixtures("as_of_now")
def test_what_is_still_open_is_not_shown_as_wrong(store: Store, deployment: Deployment) -> None:
    """The overview alarmed about records that nobody had claimed: they were a second old, and
    their claims came with the next report."""
    fresh = Verdict("producer-to-dc1", "clicks", NOON, State.OPEN, observed=41, unclaimed=41)
    with store.write() as connection:
        record_verdicts(connection, [fresh], COLLECTOR, NOON)
    with TestClient(create_app(deployment, store)) as client:
        assert "0 unclaimed" in text_of(client.get("/").text)


@pytest.mark.usefixtures("as_of_now")
def test_what_may_still_come_is_pending_and_not_missing(
    store: Store, deployment: Deployment
) -> None:
    """The page of a window that was settling said that 3 messages were missing; they came."""
    key = CellKey("clicks", 1, NOON, "web-7", "00112233445566aa")
    late = RangeSet.single(7, 9)
    sums: dict[str, Any] = {"claimed": 10, "observed": 7, "missing": 3}
    place = "dc1-to-aggregate", "clicks", NOON

    def judged(state: State) -> Verdict:
        cell = CellVerdict(key, state, 10, 7, missing=late, missing_count=3)
        return Verdict(*place, state, **sums, cells=(cell,))

    for state, named in ((State.SETTLING, "pending"), (State.LOSS, "missing")):
        with store.write() as connection:
            record_verdicts(connection, [judged(state)], COLLECTOR, NOON)
        with TestClient(create_app(deployment, store)) as client:
            overview, page = client.get(THAT_DAY).text, text_of(client.get(EVIDENCE).text)
        assert f"1 {state}" in overview
        missing = 3 if named == "missing" else 0
        pending = "" if missing else ", 3 pending"
        assert f"{missing} missing of 10 claimed{pending}" in text_of(overview)
        row = "10 7 3 0 0" if state is State.SETTLING else "10 7 0 3 0"
        assert f"{state} {row}" in page, page
        assert ("pending: 7–9" in page) == (state is State.SETTLING)


@pytest.mark.usefixtures("as_of_now")
def test_a_clock_that_is_ahead_is_named_and_does_not_hide_today(
    store: Store, deployment: Deployment
) -> None:
    """A host's clock was a year ahead: the strip of its topic ended a year from now, and every
    window of today had left it."""
    why = "skewed: the clock of web-3 is ahead by 365 d; judged by when it was written"
    window_ms = deployment.audit.window_ms
    now = time.time_ns() // 1_000_000
    today = now - now % window_ms - window_ms
    ahead = today + 365 * 86_400_000 // window_ms * window_ms
    judged = [
        Verdict("producer-to-dc1", "clicks", today, State.COMPLETE, claimed=7, observed=7),
        Verdict("producer-to-dc1", "clicks", ahead, State.COMPLETE, claimed=1, reasons=(why,)),
    ]
    with store.write() as connection:
        record_verdicts(connection, judged, COLLECTOR, now)
    with TestClient(create_app(deployment, store)) as client:
        page = client.get("/").text
    assert why in text_of(page)
    assert "1 COMPLETE" in page


def test_times_of_today_are_short() -> None:
    assert short_time(NOON, NOON + 5) == "12:00:00Z"
    assert short_time(NOON, NOON + 86_400_000) == "2026-01-01T12:00:00Z"


def test_a_cell_leads_to_its_evidence(client: TestClient) -> None:
    overview = client.get(THAT_DAY).text
    (href,) = set(re.findall(r'href="(/window\?[^"]*topic=clicks[^"]*)"', overview))
    text = text_of(client.get(href.replace("&amp;", "&")).text)
    assert "10–12, 40" in text
    assert "4 of 100" in text
    assert "dc1 clicks-1, offsets 500–502" in text
    assert "55 again at clicks-1 offset 777" in text
    assert "spark / collector differ in state: MIXED / COMPLETE" in text
    plan = (
        "tallymark audit repair --edge dc1-to-aggregate --topic clicks "
        "--from 2026-01-01T12:00:00Z --to 2026-01-01T12:01:00Z"
    )
    assert text.index(f"{plan} Copy") < text.index(f"{plan} --apply")


def test_what_a_group_processed_again_is_named(store: Store, deployment: Deployment) -> None:
    """Where it lies nobody has told: there are sequences instead of offsets, also on a terminal."""
    edge = "dc1-to-group:billing"
    again = (RangeSet.single(5, 6), RangeSet.single(9, 9))
    key = CellKey("clicks", 1, NOON, "web-7", "00112233445566aa")
    cell = CellVerdict(key, State.DUPLICATION, 10, 10, duplicates=3, repeated=again)
    found = Verdict(edge, "clicks", NOON, State.DUPLICATION, 10, 10, 0, 3, cells=(cell,))
    with store.write() as connection:
        record_verdicts(connection, [found], COLLECTOR, NOON)
        evidence = window_evidence.evidence(connection, edge, "clicks", NOON)
    with TestClient(create_app(deployment, store)) as client:
        page = client.get(f"/window?edge={edge}&topic=clicks&window={NOON}")
        assert "5–6 again 9 again" in text_of(page.text)
    terminal = Console(width=200, file=io.StringIO(), record=True)
    terminal.print(*evidence_tables(evidence))
    assert "sequences 5-6, 9 again" in terminal.export_text()


def test_what_producers_chose_is_escaped(client: TestClient) -> None:
    page = client.get(EVIDENCE).text
    assert "web-&lt;b&gt;7" in page
    assert "<b>7" not in page


def test_a_window_that_was_never_judged(client: TestClient) -> None:
    page = client.get("/window?edge=nowhere&topic=x&window=0")
    assert page.status_code == 404
    assert "There is no such window" in page.text


def test_finding_and_not_finding_a_topic(client: TestClient) -> None:
    assert '<th scope="row">clicks' not in client.get("/?q=VIEW").text
    assert "has “zzz” in its name" in client.get("/?q=zzz").text


def test_fragments_are_the_pages_content(client: TestClient) -> None:
    assert "<html" not in client.get("/fragment/overview").text
    assert "10–12, 40" in client.get(EVIDENCE.replace("/window", "/fragment/window")).text


def test_pages_load_nothing_from_elsewhere_and_run_nothing_inline(client: TestClient) -> None:
    for path in ("/", EVIDENCE):
        page = client.get(path)
        assert not re.findall(r'(?:src|href)="(?:https?:)?//', page.text)
        assert not re.findall(r"<script(?![^>]*src=)", page.text)
        assert not re.findall(r'\s(?:style|on\w+)="', page.text)
        assert "default-src 'self'" in page.headers["content-security-policy"]


def test_every_asset_a_page_names_is_served(client: TestClient) -> None:
    assets = re.findall(r'(?:src|href)="(/static/[^"?]+)', client.get("/").text)
    assert assets
    assert {client.get(asset).status_code for asset in assets} == {200}


def test_an_empty_store_says_what_to_do(store: Store, deployment: Deployment) -> None:
    with TestClient(create_app(deployment, store)) as client:
        assert "tallymark publish" in client.get("/").text


def test_without_the_vendored_library_live_pages_are_replaced_whole(
    filled: Store, deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tallymark_dashboards.frame.context.STATIC", tmp_path)
    with TestClient(create_app(deployment, filled)) as client:
        page = client.get("/").text
    assert "live.js" in page
    assert "idiomorph" not in page


def test_json(client: TestClient) -> None:
    topics = {one["topic"]: one for one in client.get("/api/v1/audit/overview").json()}
    assert topics["clicks"]["missing"] == 4
    rows = client.get("/api/v1/audit/verdicts?topic=views&limit=2").json()["verdicts"]
    assert [row["window"] for row in rows] == [NOON + 240_000, NOON + 180_000]
    query = f"edge=dc1-to-aggregate&topic=clicks&window={NOON}"
    evidence = client.get(f"/api/v1/audit/evidence?{query}").json()
    assert evidence["verdicts"][0]["cells"][0]["missing"] == [10, 12, 40, 40]
    assert client.get("/api/v1/audit/evidence?edge=a&topic=b&window=1").status_code == 404
    assert client.get("/api/v1/audit/verdicts?limit=0").status_code == 422


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/nothing/<b>here", 404, "No page is called /nothing/&lt;b&gt;here"),
        ("/?page=-1", 200, "page=-1 is below 1: 1 is taken"),
        ("/window?edge=a", 404, "Which window?"),
        ("/window?edge=a&topic=b&window=60000", 404, "There is no such window"),
    ],
)
def test_a_person_at_a_wrong_address_sees_a_page(
    client: TestClient, path: str, status: int, said: str
) -> None:
    """Somebody followed an old link: the browser showed ``{"detail":"Not Found"}`` and nothing
    else, no word of where one was and no way on."""
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    page = client.get(path, headers=browser)
    assert page.status_code == status
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert said in re.sub("</?b[^>]*>", "", page.text)
    assert '<nav aria-label="Pages">' in page.text
    assert "'none'" in page.headers["content-security-policy"]
    assert client.get("/nothing").json() == {"detail": "Not Found"}
    api = client.get("/api/v1/audit/nothing", headers=browser)
    assert (api.status_code, api.json()["status"]) == (404, 404)


def test_a_store_that_is_away_is_told_to_a_person_too(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("select", None, Exception("disk I/O error"))

    monkeypatch.setattr(pulse, "pulse", away)
    page = client.get("/", headers={"Accept": "text/html"})
    assert (page.status_code, page.headers["retry-after"]) == (503, "2")
    assert "The audit store cannot be read now: disk I/O error." in page.text
    assert client.get("/").json() == {
        "detail": "the audit store cannot be read now: disk I/O error"
    }


def test_the_hop_into_the_lake_is_shown_with_its_commits(tmp_path: Path) -> None:
    """A lost row, a row in quarantine, and which version of the table brought the others."""
    with world_in(tmp_path, lake=LakeSettings()) as world:
        one = publisher(world, "dc1", b"a")
        lake = MemoryLake(world.clusters["aggregate"], 1000)
        steady(world, one, ms=1000)
        lake.report(lake.load(world.now, lose={3}, quarantine={5}), world.now)
        heartbeats(world, one)
        window = min(world.states("aggregate-to-lake"))
        client = TestClient(create_app(world.deployment, world.store))
        assert "aggregate-to-lake" in client.get("/").text
        place = {"edge": "aggregate-to-lake", "topic": "t", "window": str(window)}
        page = client.get("/window", params=place)
        assert page.status_code == 200
        text = text_of(page.text)
        with world.store.read() as connection:
            found = window_evidence.evidence(connection, "aggregate-to-lake", "t", window)
        drawn = io.StringIO()
        for table in evidence_tables(found):
            Console(file=drawn, width=300).print(table)
    assert "what the commits of the load brought" in text
    assert f"{lake.who.reporter}, version 3" in text
    assert "quarantined 5" in text
    assert "aggregate t-0, offsets 3–3" in text
    assert "Loads exactly the missing messages again" in text
    assert "in version 3, quarantined 5" in drawn.getvalue()


def test_an_incident_of_one_window_shows_each_command_once(client: TestClient) -> None:
    """The plan and its --apply stood there twice: for all windows, and for the first of one."""
    page = text_of(client.get("/incident?id=1").text)
    assert page.count("tallymark audit repair") == 2
