"""Behind a proxy that serves the dashboards below a path, every address of a page has the path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tallymark.deployment import DashboardSettings, Deployment
from tallymark.deployment.dashboards import ProxyLogin
from tallymark.net.web.access import PEER
from tallymark_audit.store import Store
from tallymark_dashboards.access.forwarded import Forwarded
from tallymark_dashboards.access.identity import TrustedProxy
from tallymark_dashboards.access.user import VIEWER
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.frame.context import Context
from tallymark_dashboards.live.renderings import Renderings
from tallymark_dashboards.live.stream import address_of
from tallymark_dashboards.pages import load_pages


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


def test_a_header_of_anyone_does_not_change_addresses(client: TestClient) -> None:
    """Anyone can send ``X-Forwarded-Prefix``: a page would load the scripts of another site."""
    page = client.get("/", headers={"X-Forwarded-Prefix": "//evil.example"}).text
    assert "evil.example" not in page


PROXIED = {"X-Forwarded-Prefix": "/outside", "Accept": "text/html"}


@pytest.fixture
def proxied(filled: Store, deployment: Deployment) -> Iterator[TestClient]:
    """A browser behind a trusted proxy that names another prefix than the settings."""
    app = create_app(deployment, filled)
    inner = Forwarded(app, TrustedProxy(ProxyLogin(trusted_peers=("10.0.0.7",))))

    async def through_the_proxy(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope[PEER] = ("10.0.0.7", 1)
        await inner(scope, receive, send)

    with TestClient(app), TestClient(through_the_proxy, follow_redirects=False) as client:
        yield client


@pytest.mark.parametrize("passed_on", ["", "/outside"], ids=["prefix removed", "prefix passed on"])
@pytest.mark.parametrize("path", ["/", "/clusters", "/nothing", "/act/retire?reporter=r1"])
def test_addresses_have_the_prefix_that_a_trusted_proxy_names(
    proxied: TestClient, path: str, passed_on: str
) -> None:
    page = proxied.get(passed_on + path, headers=PROXIED).text
    found = set(re.findall(r'(?:href|src|action|data-source|data-prefix)="([^"#]+)', page))
    assert len(found) > 5
    assert [one for one in found if not re.match("/outside(?:/|$)", one)] == []


def test_redirects_and_the_description_have_it(proxied: TestClient) -> None:
    moved = proxied.get("/topics?q=a", headers=PROXIED)
    assert (moved.status_code, moved.headers["location"]) == (307, "/outside/?q=a")
    document = proxied.get("/outside/openapi.json", headers=PROXIED).json()
    assert document["servers"] == [{"url": "/outside"}]


def test_readers_under_different_prefixes_get_links_of_their_own(proxied: TestClient) -> None:
    """A rendering is shared by all who ask for the same page within a second."""
    outside = proxied.get("/", headers=PROXIED).text
    inside = proxied.get("/", headers={"Accept": "text/html"}).text
    assert 'href="/outside/' in outside
    assert 'href="/outside/' not in inside
    assert 'href="/audit/' in inside
    fragment = proxied.get("/fragment/overview", headers=PROXIED).text
    assert "/outside/" in fragment
    assert "/audit/" not in fragment.replace("/v1/audit/", "")


def test_what_is_pushed_has_the_prefix(filled: Store, deployment: Deployment) -> None:
    load_pages()
    renderings = Renderings(Context.of(deployment, filled))
    address = address_of("/?range=24h", VIEWER, "/outside")
    pushed = renderings.fragment(address).plain.decode()
    renderings.close()
    assert "/outside/" in pushed
    assert "/audit/topic?" not in pushed


def test_a_slash_at_the_end_is_another_page(proxied: TestClient) -> None:
    """It led to an absolute address, without the prefix, of the host in the request."""
    found = proxied.get("/topic/", headers=PROXIED)
    assert found.status_code == 404
    assert "location" not in found.headers


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
