"""The pages of schemas, on a snapshot that holds one of everything."""

from collections.abc import Iterator, Mapping

import pytest
from fastapi.testclient import TestClient
from prepared_clusters import HOSTILE, snapshots

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark_audit.store import Store
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.registry_shapes import (
    RegistryState,
    SubjectState,
    SubjectVersion,
)
from tallymark_dashboards.snapshots.shapes import Part


@pytest.fixture
def shown(deployment: Deployment, store: Store) -> Iterator[TestClient]:
    with TestClient(create_app(deployment, store, snapshots(now_ms()))) as client:
        yield client


def text(client: TestClient, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status, address
    return answer.text.partition("<main")[2]


def test_subjects_with_versions_ids_and_levels(shown: TestClient) -> None:
    page = text(shown, "/schemas")
    assert "3 of 3 subjects" in page
    assert "<script>alert" not in page
    orders = page.partition('id="subject-orders-value"')[2].partition("</tr>")[0]
    assert "FULL" in orders
    assert "the registry" not in orders
    assert "orders-value" not in text(shown, "/schemas?q=CLICK")
    assert "No subject has this" in text(shown, "/schemas?q=zzz")


def test_a_subject_says_which_version_breaks_its_level(shown: TestClient) -> None:
    page = text(shown, "/schema?subject=clicks-value")
    third = page.partition('id="version-3"')[2].partition("</tr>")[0]
    assert "not with version 2" in third
    assert "price" in third
    second = page.partition('id="version-2"')[2].partition("</tr>")[0]
    assert "✓" in second
    assert "From version 2 to 3" in page
    assert '<tr class="added">' in page
    assert "+ shop.Click.price" in page or "+ Click.price" in page
    assert "orders-value" in page  # it refers to this subject


def test_any_two_versions_can_be_compared(shown: TestClient) -> None:
    page = text(shown, "/schema?subject=clicks-value&version=1&against=3")
    assert "From version 3 to 1" in page
    assert '<tr class="removed">' in page
    assert "There is no version 9" in text(shown, "/schema?subject=clicks-value&against=9")


def test_references_lead_to_what_they_name(shown: TestClient) -> None:
    page = text(shown, "/schema?subject=orders-value")
    assert "subject=clicks-value&amp;version=3" in page
    assert "the first one" in page


def test_what_is_not_there_is_a_page_with_the_nearest_names(shown: TestClient) -> None:
    assert "subject=clicks-value" in text(shown, "/schema?subject=click-value", 404)
    assert "version=3" in text(shown, "/schema?subject=clicks-value&version=8", 404)
    assert "version=abc is no number" in text(shown, "/schema?subject=clicks-value&version=abc")
    hostile = shown.get("/schema", params={"subject": HOSTILE})
    assert hostile.status_code == 200
    assert "<script>alert" not in hostile.text


def test_a_registry_that_was_never_read_is_not_an_empty_one(
    deployment: Deployment, store: Store
) -> None:
    with TestClient(create_app(deployment, store)) as client:
        assert "was not read yet" in text(client, "/schemas")
        assert "are not known" in text(client, "/schema?subject=x", 404)
    part: Part[Mapping[str, SubjectState]] = Part({}, at=now_ms())
    empty = Snapshots([], RegistryState("http://r", "FULL", part))
    with TestClient(create_app(deployment, store, empty)) as client:
        assert "has no subject" in text(client, "/schemas")


def test_a_registry_that_is_away_is_told_with_the_age_of_what_is_shown(
    deployment: Deployment, store: Store
) -> None:
    subject = SubjectState("clicks-value", (SubjectVersion(1, 5, "AVRO", '"string"'),), "FULL")
    part: Part[Mapping[str, SubjectState]] = Part(
        {"clicks-value": subject}, now_ms() - 900_000, now_ms(), "connect failed"
    )
    away = Snapshots([], RegistryState("http://r", "FULL", part))
    with TestClient(create_app(deployment, store, away)) as client:
        page = text(client, "/schemas")
    assert "connect failed" in page
    assert "clicks-value" in page
    assert "data-ago" in page
