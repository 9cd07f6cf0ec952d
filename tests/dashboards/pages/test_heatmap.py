"""The heatmap: fifty topics, the worst first, quiet where all is well."""

import re
from pathlib import Path

import pytest
from counting import statements
from fastapi.testclient import TestClient
from prepared_store import Prepared, deployment_in

from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.store import open_store
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.schema.tables import collectors
from tallymark_dashboards.app.application import create_app

MORE = 120
"""Topics besides, so that there are several pages."""


def rows_of(page: str) -> list[str]:
    return re.findall(r'<tr id="heat-.*?</tr>', page, re.DOTALL)


def test_the_worst_topic_is_first_and_each_anomaly_has_a_symbol_and_a_number(
    prepared: Prepared, pages: TestClient
) -> None:
    page = pages.get("/heatmap").text
    rows = rows_of(page)
    assert len(rows) == 50
    assert 'id="heat-payments"' in rows[0]
    assert "−7" in rows[0]
    assert f"window={prepared.gone}" in rows[0]
    assert all(
        len(re.findall("<td", row)) == 145 or len(re.findall("<td", row)) == 144 for row in rows
    )
    assert len({len(re.findall("<td", row)) for row in rows}) == 1
    healed = next(row for row in rows_of(pages.get("/heatmap?find=orders").text))
    assert "repaired or accepted since" in healed


def test_a_span_of_several_bad_windows_leads_to_the_topic(
    prepared: Prepared, pages: TestClient
) -> None:
    page = pages.get("/heatmap?range=7d&find=views").text
    (row,) = rows_of(page)
    hrefs = re.findall(r'<td class=y><a href="(/topic[^"]+)"', row)
    assert hrefs, row
    assert hrefs[0].startswith("/topic?topic=views&amp;from=")
    found = pages.get(hrefs[0].replace("&amp;", "&"))
    assert found.status_code == 200
    assert "UNKNOWN" in found.text


def test_a_page_of_healthy_topics_is_small(pages: TestClient) -> None:
    page = pages.get("/heatmap?page=2")
    assert len(rows_of(page.text)) == 50
    assert len(page.content) < 150_000


@pytest.mark.parametrize("query", ["page=99", "page=abc", "edge=nowhere", "range=never"])
def test_what_makes_no_sense_is_said(pages: TestClient, query: str) -> None:
    page = pages.get(f"/heatmap?{query}")
    assert page.status_code == 200
    assert 'id="notes"' in page.text
    assert rows_of(page.text)


def test_finding_and_not_finding(pages: TestClient) -> None:
    assert len(rows_of(pages.get("/heatmap?find=PAYM").text)) == 1
    page = pages.get("/heatmap?find=<zzz>")
    assert page.status_code == 200
    assert "has “&lt;zzz&gt;” in its name" in page.text


def test_one_hop_alone(pages: TestClient) -> None:
    page = pages.get("/heatmap?edge=dc2-to-aggregate&find=payments").text
    (row,) = rows_of(page)
    assert "−7" not in row


def test_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    deployment = deployment_in(tmp_path / "empty")
    with (
        open_store(deployment.audit_store) as store,
        TestClient(create_app(deployment, store)) as pages,
    ):
        page = pages.get("/heatmap")
    assert page.status_code == 200
    assert "tallymark publish" in page.text


def test_absence_is_never_green(own: Prepared, own_client: TestClient) -> None:
    """The collector of dc2 had stopped for hours: the cells behind it were as those of a day
    without messages."""
    with own.store.write() as connection:
        connection.execute(
            collectors.update()
            .where(collectors.c.cluster == "dc2")
            .values(heartbeat=own.now - 3 * 3_600_000)
        )
        connection.exec_driver_sql(
            "update progress set counted_through = counted_through - 10800000 where cluster = 'dc2'"
        )
    (row,) = rows_of(own_client.get("/heatmap?range=6h&find=payments").text)
    assert row.count("<td class=u>") > 10
    assert row.rstrip().endswith("<td class=u></tr>")
    # Of another cluster all is judged; so the overview says, too.
    (row,) = rows_of(own_client.get("/heatmap?range=6h&find=metrics").text)
    assert "<td class=u>" not in row


def test_the_number_of_questions_does_not_depend_on_the_rows(
    own: Prepared, own_client: TestClient
) -> None:
    numbers: list[int] = []

    def ask(find: str) -> str:
        with statements(own.store.engine) as said:
            page = own_client.get(f"/heatmap?find={find}").text
        numbers.append(len(said))
        return page

    assert len(rows_of(ask("payments"))) == 1
    assert len(rows_of(ask(""))) == 50
    more = [
        Verdict("producer-to-dc1", "bulk-00001", own.gone + n * 1000, State.LOSS, 2, 1, 1)
        for n in range(1, 300)
    ]
    with own.store.write() as connection:
        record_verdicts(connection, more, COLLECTOR, own.now)
    assert 'id="heat-bulk-00001"' in rows_of(ask("bulk"))[0]
    assert 3 < numbers[0] < 15
    assert max(numbers) - min(numbers) <= 2  # the age of the audit is read once a second


def test_the_script_is_served_and_nothing_is_inline(pages: TestClient) -> None:
    page = pages.get("/heatmap").text
    (src,) = re.findall(r'src="([^"]*heatmap\.js)"', page)
    assert pages.get(src).status_code == 200
    assert not re.findall(r'\s(?:style|on\w+)="', page)
