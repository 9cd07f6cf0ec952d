"""The pages of consumer groups, on snapshots that hold one of everything."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from prepared_clusters import HOSTILE, group, partition, snapshots

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark_audit.store import Store
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.registry_shapes import RegistryState
from tallymark_dashboards.snapshots.shapes import ClusterState, Part


@pytest.fixture
def shown(deployment: Deployment, store: Store) -> Iterator[TestClient]:
    with TestClient(create_app(deployment, store, snapshots(now_ms()))) as client:
        yield client


def text(client: TestClient, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status, address
    return answer.text


def test_the_worst_groups_come_first_with_lag_status_and_course(shown: TestClient) -> None:
    page = text(shown, "/groups")
    order = [page.index(f">{name}") for name in ("nightly", "fraud", "search", "billing")]
    assert order == sorted(order)
    assert "STOPPED" in page
    assert "≥ 1 h 23 min" in page  # 5,000 s
    assert "it reads, but its lag grows" in page
    assert page.count('class="chart spark"') >= 4
    assert "(2) Consumer groups" in page  # the tab: STALLED and STOPPED


def test_a_cluster_that_is_away_is_named_with_the_age_of_what_is_shown(shown: TestClient) -> None:
    page = text(shown, "/groups")
    assert "dc2: consumer groups" in page
    assert "connection refused" in page
    assert 'id="stale-1"' in page
    assert 'id="stale-1"' not in text(shown, "/groups?cluster=dc1")


def test_groups_are_found_by_name_cluster_and_status(shown: TestClient) -> None:
    found = text(shown, "/groups?q=BILL&cluster=dc1").partition("<main")[2]
    assert "billing" in found
    assert "nightly" not in found
    only = text(shown, "/groups?status=STALLED").partition("<main")[2]
    assert "fraud" in only
    assert "billing" not in only
    assert "No group is like that" in text(shown, "/groups?q=zzz")


@pytest.mark.parametrize("query", ["page=abc", "page=99999", "cluster=nowhere", "status=<b>"])
def test_what_was_taken_instead_is_told(shown: TestClient, query: str) -> None:
    page = text(shown, f"/groups?{query}")
    assert 'id="notes"' in page
    assert "<b>" not in page.partition('id="notes"')[2].partition("</ul>")[0]


def test_names_that_are_meant_to_harm_are_shown_and_do_none(shown: TestClient) -> None:
    page = text(shown, "/groups")
    assert "<script>alert" not in page
    assert "\u202e" not in page
    own = shown.get("/group", params={"cluster": "dc1", "group": HOSTILE})
    assert own.status_code == 200
    assert "<script>alert" not in own.text


def test_one_group_shows_partitions_members_and_leads_to_the_message(shown: TestClient) -> None:
    page = text(shown, "/group?cluster=dc1&group=fraud-detection")
    assert "/messages?cluster=dc1&amp;topic=orders&amp;partition=3&amp;offset=7900" in page
    assert "loader-7f" in page
    assert "STALLED" in page
    assert page.count("<svg") >= 2
    assert "tallymark groups describe" in page
    first, second = page.index('id="partition-orders-3"'), page.index('id="partition-orders-0"')
    assert first < second


def test_a_group_that_is_not_there_leads_to_the_nearest_ones(shown: TestClient) -> None:
    page = text(shown, "/group?cluster=dc1&group=biling", 404)
    assert "group=billing" in page
    assert "cluster=dc1" in text(shown, "/group?cluster=dc9&group=x", 404)
    other = text(shown, "/group?cluster=dc2&group=billing", 404)
    assert "billing on dc1" in other


def test_before_the_first_look_nothing_is_known_and_nothing_is_green(
    deployment: Deployment, store: Store
) -> None:
    with TestClient(create_app(deployment, store)) as client:
        page = text(client, "/groups").partition("<main")[2]
        assert "No cluster has told its groups yet" in page
        assert "not known" in page
        missing = text(client, "/group?cluster=dc1&group=x", 404)
        assert "are not known" in missing


def test_without_groups_the_page_says_how_to_get_one(deployment: Deployment, store: Store) -> None:
    empty = Snapshots([ClusterState("dc1", groups=Part({}, now_ms()))], RegistryState())
    with TestClient(create_app(deployment, store, empty)) as client:
        assert "There is no consumer group" in text(client, "/groups")


def test_ten_thousand_groups_are_one_page_of_fifty(deployment: Deployment, store: Store) -> None:
    many = {f"g{n:05}": group(f"g{n:05}", partition("clicks", 0, n)) for n in range(10_000)}
    state = ClusterState("dc1", groups=Part(many, now_ms()))
    with TestClient(create_app(deployment, store, Snapshots([state], RegistryState()))) as client:
        page = text(client, "/groups?page=200")
        assert page.count('<tr class="good"') == 50
        assert "page 200 of 200" in page
        assert len(page) < 150_000
