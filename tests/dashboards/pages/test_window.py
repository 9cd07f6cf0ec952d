"""The page of a window: what is wrong, what can be done, and the windows beside it."""

import re
from urllib.parse import urlencode

import pytest
from counting import statements
from fastapi.testclient import TestClient
from page_text import text_of
from prepared_store import HOSTILE, Prepared, W

from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store.judged.verdicts import COLLECTOR, locate_cells, record_verdicts
from tallymark_audit.store.schema.rows import cell_to_json
from tallymark_audit.store.schema.tables import incidents, observations
from tallymark_dashboards.snapshots.shapes import ClusterState, Part, PartitionState, TopicState

RUN = "00112233445566aa"
REPAIRABILITY = "/api/v1/audit/repairability"


def address(edge: str, topic: str, window: object) -> str:
    return f"/window?{urlencode({'edge': edge, 'topic': topic, 'window': window})}"


def lose(prepared: Prepared, window: int, *, located: bool) -> None:
    """Three messages of views are lost between dc1 and the aggregate."""
    edge, topic = "dc1-to-aggregate", "views"
    key = CellKey(topic, 1, window, "web-7", RUN)
    missing = RangeSet.single(5, 7)
    cell = CellVerdict(key, State.LOSS, 100, 97, missing=missing, missing_count=3)
    bad = Verdict(edge, topic, window, State.LOSS, 100, 97, 3, cells=(cell,))
    with prepared.store.write() as connection:
        record_verdicts(connection, [bad], COLLECTOR, prepared.now)
        seen = {
            "tier": "cluster", "cluster": "dc1", "topic": topic, "window": window, "partition": 1,
            "server": "web-7", "instance": RUN, "seen_topic": topic, "seen_partition": 1,
            "count": 100, "ranges": [0, 99], "first_offset": 495, "last_offset": 594,
        }  # fmt: skip
        connection.execute(observations.insert(), [seen])
        place = {
            "cluster": "dc1", "topic": topic, "partition": 1, "first_offset": 500,
            "last_offset": 502, "first_sequence": 5, "last_sequence": 7,
        }  # fmt: skip
        row = {"edge": edge, "topic": topic, "window": window, "source": COLLECTOR, "revision": 0}
        if located:
            locate_cells(connection, {**row, "cells": [cell_to_json(cell)]}, {0: [place]})
        else:
            expired = {"partition": 1, "from_offset": 0, "to_offset": 10_000, "count": 1}
            connection.execute(
                incidents.insert().values(
                    cluster="dc1",
                    topic=topic,
                    at=prepared.now,
                    kind="expired",
                    reason="",
                    **expired,
                )
            )


def test_what_can_be_repaired_is_said_with_the_plan_first(
    own: Prepared, own_client: TestClient
) -> None:
    """The page offered ``repair --apply`` as the first and only thing, without the topic."""
    window = own.repaired + 2 * W
    lose(own, window, located=True)
    text = text_of(own_client.get(address("dc1-to-aggregate", "views", window)).text)
    assert "3 of 3 missing messages can be copied again" in text
    plan = re.search(r"tallymark audit repair [^A-Z]*--topic views[^>]*?Z --to [^ ]+Z", text)
    assert plan is not None
    assert f"{plan[0]} --apply" in text
    assert text.index(plan[0]) < text.index(f"{plan[0]} --apply")


def test_what_retention_took_upstream_meanwhile_cannot_be_repaired(
    own: Prepared, own_client: TestClient
) -> None:
    """The page and the API said "3 of 3" of messages that retention had deleted upstream after they
    had been found there: the store does not learn of that."""
    window = own.repaired + 2 * W
    lose(own, window, located=True)
    page, api = (
        address("dc1-to-aggregate", "views", window),
        address("dc1-to-aggregate", "views", window).replace("/window", REPAIRABILITY),
    )
    text = text_of(own_client.get(page).text)
    assert "where the logs of dc1 begin by now was not read yet" in text
    for read_at, said in (
        (own.now, "as read in the last three minutes"),
        (own.now - 600_000, "retention may have taken some since"),
    ):
        parts = (PartitionState(1, 0, (0,), (0,), start=600, end=read_at),)
        topic = TopicState("views", internal=False, partitions=parts, ends_at=read_at)
        state = ClusterState("dc1", topics=Part({"views": topic}, at=read_at))
        own_client.app.state.context.snapshots.put(state)  # type: ignore[attr-defined]
        text = text_of(own_client.get(page).text)
        assert "0 of 3 missing messages can be copied again" in text
        assert "dc1 does not have them any more: sequences 5-7" in text
        assert said in text
        found = own_client.get(api).json()
        assert (found["repairable"], found["of"], found["starts_at"]) == (0, 3, read_at)


def test_a_loss_of_which_nothing_is_left_offers_no_repair(
    prepared: Prepared, pages: TestClient
) -> None:
    """The page offered ``audit repair --apply`` for messages that no log has: it copied nothing,
    and said so only then."""
    page = pages.get(address("producer-to-dc2", "payments", prepared.gone)).text
    text = text_of(page)
    assert "0 of 7 missing messages can be copied again" in text
    assert "no log has them" in text
    assert "audit repair" not in text
    assert "tallymark audit accept producer-to-dc2 payments" in text
    assert "Whom to notify" in text


def test_what_upstream_deleted_offers_no_repair(own: Prepared, own_client: TestClient) -> None:
    window = own.repaired + 2 * W
    lose(own, window, located=False)
    text = text_of(own_client.get(address("dc1-to-aggregate", "views", window)).text)
    assert "0 of 3 missing messages can be copied again" in text
    assert "--apply" not in text


def test_both_sides_are_in_one_row(prepared: Prepared, pages: TestClient) -> None:
    page = pages.get(address("producer-to-dc2", "payments", prepared.gone)).text
    (row,) = re.findall(rf'<tr[^>]*id="pair-1-{RUN}".*?</tr>', page, re.DOTALL)
    text = text_of(row)
    assert "1,000 993 -7" in text
    assert "0–999" in text
    assert "0–899, 907–999" in text
    assert "payments-1: 91000–91992" in text


def test_what_happened_is_in_one_order_of_time(prepared: Prepared, pages: TestClient) -> None:
    page = pages.get(address("dc1-to-aggregate", "orders", prepared.repaired)).text
    (part,) = re.findall(r'id="history".*?</table>', page, re.DOTALL)
    text = text_of(part)
    assert text.index("LOSS") < text.index("12 copied") < text.rindex("COMPLETE")
    times = re.findall(r'<tr>\s*<th[^>]*><time datetime="([^"]+)"', part)
    assert len(times) == 5
    assert times == sorted(times)
    assert "<svg" in part


def test_from_a_window_one_goes_to_the_next_and_to_the_next_bad(
    prepared: Prepared, pages: TestClient
) -> None:
    window = prepared.gone - 2 * W
    page = pages.get(address("producer-to-dc2", "payments", window)).text
    (nav,) = re.findall(r'<nav id="neighbours".*?</nav>', page, re.DOTALL)
    links = dict(re.findall(r"window=(-?\d+)[^>]*>([^<]+)</a>", nav))
    assert links[str(window - W)] == "← previous"
    assert links[str(window + W)] == "next →"


@pytest.mark.parametrize("said", ["abc", "9" * 26, "-5", "", "2031-01-01T00:00:00Z", "9" * 18, "²"])
def test_an_unknown_window_is_a_page_with_the_nearest(
    prepared: Prepared, pages: TestClient, said: str
) -> None:
    """``window=abc`` was an error of five words, from which no way led on."""
    page = pages.get(address("producer-to-dc2", "payments", said))
    assert page.status_code == 404
    there = [int(one) for one in re.findall(r'<li><a href="[^"]*window=(\d+)', page.text)]
    assert there
    assert pages.get(address("producer-to-dc2", "payments", there[0])).status_code == 200


def test_a_time_within_a_window_shows_that_window(prepared: Prepared, pages: TestClient) -> None:
    page = pages.get(address("producer-to-dc2", "payments", prepared.gone + 1234))
    assert page.status_code == 200
    assert "is in the window that starts at" in text_of(page.text)
    assert "900–906" in page.text


def test_an_unknown_topic_or_edge_names_what_there_is(
    prepared: Prepared, pages: TestClient
) -> None:
    page = pages.get(address("producer-to-nowhere", "payments", prepared.gone))
    assert page.status_code == 404
    assert "was never judged on producer-to-nowhere" in text_of(page.text)
    page = pages.get(address("producer-to-dc2", "paymnts", prepared.gone))
    assert page.status_code == 404


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(prepared: Prepared, pages: TestClient, name: str) -> None:
    for place in (
        ("dc2-to-aggregate", name, prepared.gone - prepared.gone % (6 * W)),
        (name, "payments", prepared.gone),
        (name, name, name),
    ):
        page = pages.get(address(*place)).text
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "\u202e" not in page


def test_nothing_of_a_live_page_changes_when_a_reporter_is_heard(
    own: Prepared, own_client: TestClient
) -> None:
    """Every report changed "last heard": a quiet page was sent again every second."""
    where = address("producer-to-dc2", "payments", own.gone).replace("/window", "/fragment/window")
    before = own_client.get(where).text
    with own.store.write() as connection:
        connection.exec_driver_sql(
            "update reporters set last_heard = last_heard + 1, "
            "complete_through = complete_through + 1 where server = 'api-2'"
        )
    assert own_client.get(where).text == before


def test_the_number_of_questions_does_not_depend_on_the_rows(
    own: Prepared, own_client: TestClient
) -> None:
    numbers: list[int] = []
    where = address("producer-to-dc2", "payments", own.gone)
    for more in (0, 5_000):
        rows = [
            {
                "tier": "cluster", "cluster": "dc2", "topic": "payments",
                "window": own.gone, "partition": 2, "server": "web",
                "instance": f"{n:016x}", "seen_topic": "payments", "seen_partition": 2,
                "count": 1, "ranges": [0, 0],
            }
            for n in range(more)
        ]  # fmt: skip
        if rows:
            with own.store.write() as connection:
                connection.execute(observations.insert(), rows)
        own_client.get("/")  # the age of the audit is read once a second
        with statements(own.store.engine) as said:
            # A page that was just asked for is not read again.
            page = own_client.get(f"{where}&another={more}")
        assert page.status_code == 200
        numbers.append(len(said))
    assert re.search(r"and 4,9\d\d more rows downstream", text_of(page.text))
    assert len(page.content) < 200_000
    assert 5 < numbers[0] < 40
    assert numbers[1] <= numbers[0] + 2, "the two counts of what is left out"
