"""The audit's API and metrics, as the dashboards mount them."""

from eventually import eventually
from fastapi.testclient import TestClient
from serving import asked, served

from tallymark.deployment import Deployment
from tallymark_audit.api import PREFIX
from tallymark_audit.api.waiting import Waits
from tallymark_audit.store import Store
from tallymark_audit.store.schema.tables import watermarks
from tallymark_dashboards.app.application import create_app

NOON = 1_767_268_800_000


def test_answers_may_be_kept_and_asked_for_again(client: TestClient) -> None:
    """The pages' "no-store" stood on them, so no client kept what the tag was of."""
    answer = client.get(f"{PREFIX}/verdicts")
    assert answer.headers["cache-control"] == "no-cache"
    again = client.get(f"{PREFIX}/verdicts", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


def test_metrics_are_served(client: TestClient) -> None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    missing = 'tallymark_audit_missing_messages{edge="dc1-to-aggregate",topic="clicks"} 4.0'
    assert missing in answer.text
    assert "process_cpu_seconds_total" in answer.text


def test_who_hangs_up_waits_no_more(store: Store, deployment: Deployment) -> None:
    """Between the server and the route stand the pages' headers and the access log."""
    with store.write() as connection:
        connection.execute(
            watermarks.insert().values(edge="e", topic="t", through=0, horizon=0, holes=[], at=0)
        )
    app = create_app(deployment, store)
    waits: Waits = app.state.audit_api.waits
    with served(app, waits.stop) as url:
        with asked(url, f"{PREFIX}/watermarks/e/t?complete_through={NOON}&wait=300s"):
            eventually(lambda: len(waits) == 1)
        eventually(lambda: len(waits) == 0)
