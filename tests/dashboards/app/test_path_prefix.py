"""Behind a proxy that serves the dashboards below a path, every address of a page has the path."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tallymark.deployment import DashboardSettings, Deployment
from tallymark_audit.store import Store
from tallymark_dashboards.app.application import create_app


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(data_dir=tmp_path, dashboards=DashboardSettings(path_prefix="/audit"))


@pytest.mark.parametrize("passed_on", ["", "/audit"], ids=["prefix removed", "prefix passed on"])
@pytest.mark.parametrize("path", ["/", "/window?edge=e&topic=t&window=1", "/nothing"])
def test_each_address_of_a_page_leads_back_through_the_proxy(
    filled: Store, deployment: Deployment, path: str, passed_on: str
) -> None:
    """Behind a proxy the style sheets and links of the pages led to the proxy's own root."""
    with TestClient(create_app(deployment, filled), headers={"Accept": "text/html"}) as client:
        page = client.get(passed_on + path).text
        found = set(re.findall(r'(?:href|src|action|hx-get|sse-connect)="([^"#]+)', page))
        assert len(found) > 5
        assert [one for one in found if one != "/audit" and not one.startswith("/audit/")] == []
        for one in found:
            if "live" not in one:
                assert client.get(one.replace("&amp;", "&")).status_code in (200, 404)


def test_a_header_does_not_change_addresses(client: TestClient) -> None:
    """Anyone can send ``X-Forwarded-Prefix``: a page would load the scripts of another site."""
    page = client.get("/", headers={"X-Forwarded-Prefix": "//evil.example"}).text
    assert "evil.example" not in page


def test_paths_that_only_begin_alike_are_not_below_it(
    filled: Store, deployment: Deployment
) -> None:
    with TestClient(create_app(deployment, filled)) as client:
        assert client.get("/auditor").status_code == 404
        assert client.get("/audit").status_code == 200
        assert client.get("/audit/api/v1/audit/overview").status_code == 200


def test_the_description_of_the_api_has_the_prefix(filled: Store, deployment: Deployment) -> None:
    """A client that was made from it asked the proxy's own root."""
    with TestClient(create_app(deployment, filled)) as client:
        assert client.get("/audit/openapi.json").json()["servers"] == [{"url": "/audit"}]
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/audit"}]
