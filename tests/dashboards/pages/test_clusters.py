"""The page of clusters and edges."""

import re
from collections.abc import Iterator
from html import unescape

import pytest
from fastapi.testclient import TestClient
from prepared_clusters import HOSTILE, snapshots, topic

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.store import Store
from tallymark_audit.store.counted.incidents import GIVEN_UP, UNCLEAN_ELECTION
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.schema.tables import copied, incidents, progress
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.registry_shapes import RegistryState
from tallymark_dashboards.snapshots.shapes import ClusterState, Part
from tallymark_dashboards.view.clusters.stale import stale_parts

W = 60_000
DAY = 86_400_000
EDGE = "dc1-to-aggregate"


@pytest.fixture
def judged(store: Store) -> Store:
    now = now_ms()
    window = now - now % W - 20 * W
    mixed = Verdict(
        EDGE, "clicks", window, State.MIXED, claimed=1_000, observed=995, missing=5, duplicates=2
    )
    fine = Verdict("dc2-to-aggregate", "clicks", window, State.COMPLETE, claimed=70, observed=70)
    with store.write() as connection:
        record_verdicts(connection, [mixed, fine], COLLECTOR, now)
        place = {"topic": "clicks", "partition": 0}
        connection.execute(
            progress.insert().values(
                cluster="dc1", generation=1, next_offset=1_500, high_watermark=1_500, **place
            )
        )
        connection.execute(
            copied.insert().values(
                cluster="aggregate", reporter=f"mirror-{EDGE}", target_topic="clicks",
                topic_id="", through_offset=1_200, records=1_200, at=now, **place,
            )
        )  # fmt: skip
    return store


@pytest.fixture
def shown(deployment: Deployment, judged: Store) -> Iterator[TestClient]:
    with TestClient(create_app(deployment, judged, snapshots(now_ms()))) as client:
        yield client


def row(page: str, id: str) -> str:
    return page.partition(f'id="{id}"')[2].partition("</tr>")[0]


def test_edges_show_lag_and_completeness_from_the_store(shown: TestClient) -> None:
    page = shown.get("/clusters").text
    edge = row(page, f"edge-{EDGE}")
    assert "99.50 %" in edge
    assert "5 missing" in edge
    assert "2 duplicated" in edge
    assert ">300<" in edge  # not copied yet
    assert "100.00 %" in row(page, "edge-dc2-to-aggregate")
    assert "nothing judged" in row(page, "edge-producer-to-dc1")
    assert "− −" not in page
    assert 'class="hop bad"' in page


def test_an_edge_with_unknown_windows_is_not_complete(deployment: Deployment, store: Store) -> None:
    """Six windows of an edge could not be judged, and beside them stood 100.00 %: the share was
    that of the windows that could be."""
    now = now_ms()
    window = now - now % W - 20 * W
    fine = Verdict(EDGE, "clicks", window, State.COMPLETE, claimed=70, observed=70)
    unknown = Verdict(EDGE, "clicks", window + W, State.UNKNOWN, claimed=9, observed=9)
    with store.write() as connection:
        record_verdicts(connection, [fine, unknown], COLLECTOR, now)
    with TestClient(create_app(deployment, store, snapshots(now))) as client:
        edge = row(client.get("/clusters").text, f"edge-{EDGE}")
    assert "1 window unknown" in edge
    assert "100.00 %" not in edge


def test_parts_that_are_of_one_age_are_one_line() -> None:
    """The brokers and the topics of a cluster are read together: a cluster that is slow had two
    lines that said the same."""
    old = Part[dict[str, int]]({}, now_ms() - DAY)
    found = stale_parts("dc1", [("brokers", old), ("topics", old)], now_ms())
    assert [one.what for one in found] == ["brokers, topics"]
    other = Part[dict[str, int]]({}, now_ms() - 2 * DAY)
    assert len(stale_parts("dc1", [("brokers", old), ("topics", other)], now_ms())) == 2


def test_partitions_without_a_leader_are_named(shown: TestClient) -> None:
    page = shown.get("/clusters").text
    assert "2 without a leader" in row(page, "cluster-dc1")
    assert "no leader" in row(page, "bad-dc1-payments-2")
    assert "under-replicated" in row(page, "bad-dc1-payments-0")
    assert "controller" in row(page, "broker-dc1-2")
    assert "✗ 2 without a leader" in page


def test_partitions_that_refuse_acks_all_are_named_with_their_minimum(shown: TestClient) -> None:
    """A partition with one of three replicas in sync and a minimum of 2 was "under-replicated": as
    if producers could go on."""
    page = shown.get("/clusters").text
    ledger = row(page, "bad-dc1-ledger-0")
    assert "below minimum" in ledger
    assert ">2<" in ledger
    assert "Z</time>" in ledger  # since when
    assert "below minimum" not in row(page, "bad-dc1-payments-0")
    assert page.index('id="bad-dc1-payments-5"') < page.index('id="bad-dc1-ledger-0"')
    assert page.index('id="bad-dc1-ledger-0"') < page.index('id="bad-dc1-payments-0"')


def test_which_broker_leads_what_and_which_left_the_replicas_in_sync(shown: TestClient) -> None:
    page = shown.get("/clusters").text
    cells = re.findall(
        r'class="n">(?:<span class="number[^>]*>)?([\d,]+)<', row(page, "broker-dc1-3")
    )
    leads, preferred, elsewhere, replicas, behind = map(int, cells)
    assert (preferred, elsewhere, behind) == (0, 1, 4)  # of ledger it is the first replica
    assert leads > 0
    assert replicas == 24
    changes = page.partition('id="isr-dc1-region"')[2].partition("</table>")[0]
    assert changes.count("<tr id=") == 3
    assert "1,204" in changes
    assert "its broker, or the disk of it, was not there" in changes
    assert "did not keep up" in changes
    answer = shown.get("/api/v1/isr-changes?cluster=dc1").json()["isr_changes"]
    assert [(one["broker"], one["change"], one["led"]) for one in answer] == [
        (2, "joined", 0), (2, "left", 0), (3, "left", 402),
    ]  # fmt: skip


def test_unclean_elections_of_the_range_stand_on_the_page(shown: TestClient, judged: Store) -> None:
    said = "None in this range."
    assert said in shown.get("/clusters").text
    now = now_ms()
    place = {"topic": "payments", "partition": 2, "from_offset": 90, "to_offset": 120}
    with judged.write() as connection:
        for kind, at in ((UNCLEAN_ELECTION, now - W), (GIVEN_UP, now - 2 * DAY), ("gap", now - W)):
            connection.execute(
                incidents.insert().values(cluster="dc1", at=at, kind=kind, reason="<b>why", **place)
            )
    page = shown.get("/clusters?range=24h").text
    table = page.partition('id="unclean-region"')[2].partition("</table>")[0]
    assert table.count("<tr class=") == 1
    assert "unclean election" in table
    assert "90–119" in table
    assert "<b>why" not in table
    href = unescape(page.partition('id="unclean-region"')[2].partition("download>CSV")[0]).split(
        '"'
    )[-2]
    assert len(shown.get(href).text.splitlines()) == 2
    assert said in shown.get("/clusters?range=15m&from=2020-01-01&to=2020-01-02").text


def test_what_happened_later_stands_above_whenever_it_was_reported(
    shown: TestClient, judged: Store
) -> None:
    """A drill with three brokers: the broker that was elected was killed with its report, and sent
    it when another one had said what it cut. The election stood above the cut, as if after it."""
    now = now_ms()
    place = {"topic": "payments", "partition": 2, "from_offset": 90, "to_offset": 120}
    with judged.write() as connection:
        for kind, at in ((GIVEN_UP, now - 5_000), (UNCLEAN_ELECTION, now - 9_000)):
            connection.execute(
                incidents.insert().values(cluster="dc1", at=at, kind=kind, reason="why", **place)
            )
    page = shown.get("/clusters?range=24h").text
    rows = page.partition('id="unclean-region"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    assert rows.index("records cut") < rows.index("unclean election")


def test_a_cluster_that_is_away_keeps_its_last_state_with_its_age(shown: TestClient) -> None:
    page = shown.get("/clusters").text
    assert "dc2: brokers, topics as of" in " ".join(page.split())
    assert "connection refused" in page
    assert "away" in row(page, "cluster-dc2")
    assert ">3<" in row(page, "cluster-dc2")  # brokers, as they were read last


def test_the_range_is_that_of_the_page(shown: TestClient) -> None:
    page = shown.get("/clusters?range=15m").text
    assert "nothing judged" in row(page, f"edge-{EDGE}")


def test_before_the_first_look_nothing_is_known(deployment: Deployment, store: Store) -> None:
    with TestClient(create_app(deployment, store)) as client:
        page = client.get("/clusters").text
    assert "not read yet" in row(page, "cluster-dc1")
    assert "well" not in row(page, "cluster-dc1")
    assert "?" in page.partition("<svg")[2].partition("</svg>")[0]


def test_ten_thousand_topics_and_names_that_are_meant_to_harm(
    deployment: Deployment, store: Store
) -> None:
    topics = {f"t{n:05}": topic(f"t{n:05}", 1, leaderless=(0,)) for n in range(10_000)}
    topics[HOSTILE] = topic(HOSTILE, 2, leaderless=(1,))
    state = ClusterState("dc1", topics=Part(topics, now_ms()))
    with TestClient(create_app(deployment, store, Snapshots([state], RegistryState()))) as client:
        page = client.get("/clusters").text
    assert "10,001" in row(page, "cluster-dc1")
    assert "<script>alert" not in page
    assert page.count('id="bad-dc1-') == 100
    assert len(page) < 150_000


def test_open_transactions_are_shown_and_where_readers_of_committed_messages_stand(
    shown: TestClient,
) -> None:
    page = shown.get("/clusters").text
    copier = row(page, "open-dc1-copier-0")
    assert "Ongoing" in copier
    assert "orders-4 and 3 more" in copier
    assert "1,204" in copier
    assert "PrepareCommit" in row(page, "open-dc1-copier-1")
    assert ">yes<" in row(page, "standing-dc1-orders-3")
    assert "none that is known" in row(page, "standing-dc1-clicks-7")
    aggregate = page.partition('id="transactions-aggregate"')[2].partition("</section>")[0]
    assert "None is open." in aggregate
    assert "<script>alert(1)" not in page
