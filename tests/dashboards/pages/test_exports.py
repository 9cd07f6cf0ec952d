"""The links to CSV and JSON below a page's tables lead to the same rows."""

import re
import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prepared_store import deployment_in, prepare

from tallymark_audit.store import open_store
from tallymark_dashboards.app.application import create_app


@pytest.mark.parametrize("range_", ["range=6h", "range=24h", "from=2h"])
def test_the_windows_of_a_topic(tmp_path: Path, range_: str) -> None:
    deployment = deployment_in(tmp_path)
    with open_store(deployment.audit_store) as store:
        prepare(store, deployment, time.time_ns() // 1_000_000, hours=1, hostile=False)
        with TestClient(create_app(deployment, store)) as client:
            page = client.get(f"/topic?topic=metrics&{range_}").text
            hrefs = re.findall(r'href="(/api/v1/audit/verdicts[^"]*)"', page)
            assert len(hrefs) == 2
            csv, json = (client.get(href.replace("&amp;", "&")) for href in hrefs)
    assert (csv.status_code, json.status_code) == (200, 200)
    assert csv.headers["content-type"].startswith("text/csv")
    shown = re.findall(r'id="window-(\d+)-', page)
    assert sorted(str(row["window"]) for row in json.json()["verdicts"]) == sorted(shown)
    assert len(csv.text.splitlines()) == 1 + len(shown)
