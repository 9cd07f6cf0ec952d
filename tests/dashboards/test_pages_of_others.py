"""What pages of others can do, tried in a real browser.

A user had a stack running and read the news in the same browser: a page registered a schema under
a subject of theirs, by a POST without a content type; another one, whose name stood for 127.0.0.1
by the time it asked, read every window of the audit.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from browser import needs_chromium, open_page, text_of_page
from eventually import eventually

from tallymark.deployment import DashboardSettings, Deployment
from tallymark.processes.ports import with_free_ports
from tallymark_audit.store import Store
from tallymark_dashboards.server import DashboardServer
from tallymark_schema_registry.embedded import RegistryServer

pytestmark = [pytest.mark.process, needs_chromium, pytest.mark.timeout(300)]

PAGE = """<!doctype html><title>news</title>
<iframe name=hidden></iframe>
<form id=form method=post enctype=text/plain target=hidden
  action="REGISTRY/subjects/by-form/versions">
<input name='{"schema":"\\"int\\"","x":"' value='"}'></form>
<script>
// A blob without a type: no Content-Type.
const body = () => new Blob([JSON.stringify({schema: '"int"'})]);
const tried = {};
async function attempt(name, url, options) {
  try {
    const answer = await fetch(url, options);
    tried[name] = answer.type == "opaque" ? "sent" : await answer.text();
  } catch (error) { tried[name] = "failed"; }
}
(async () => {
  const to = name => "REGISTRY/subjects/" + name + "/versions";
  await attempt("simple", to("by-no-cors"), {method: "POST", mode: "no-cors", body: body()});
  await attempt("cors", to("by-cors"), {method: "POST", body: body()});
  await attempt("credentials", to("by-credentials"),
    {method: "POST", mode: "no-cors", body: body(), credentials: "include"});
  await attempt("level", "REGISTRY/config", {method: "PUT", body: '{"compatibility":"NONE"}'});
  await attempt("read", "REGISTRY/subjects", {});
  await attempt("audit", "DASHBOARDS/api/v1/audit/overview", {});
  await attempt("embedded", "DASHBOARDS/metrics", {mode: "no-cors"});
  tried.beacon = navigator.sendBeacon(to("by-beacon"), body());
  document.getElementById("form").submit();
  await new Promise(done => setTimeout(done, 1500));
  await fetch("/result", {method: "POST", body: JSON.stringify(tried)});
})();
</script>"""


class News:
    """Somebody else's web site: it shows a page, and hears from it what it could do."""

    def __init__(self, page: str) -> None:
        self.results: list[dict[str, Any]] = []
        news = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(page.encode())

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                news.results.append(json.loads(self.rfile.read(length)))
                self.answer(b"")

            def answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryServer]:
    log = tmp_path / "registry-access.log"
    with RegistryServer(f"sqlite:///{tmp_path / 'r.db'}", access_log=log) as server:
        yield server


@pytest.fixture
def dashboards(tmp_path: Path, filled: Store) -> Iterator[str]:
    settings = DashboardSettings(port=0)
    deployment = with_free_ports(Deployment(data_dir=tmp_path, dashboards=settings))
    server = DashboardServer(deployment)
    yield deployment.dashboards.url
    server.close()


@pytest.mark.soak_cases("127.0.0.1", "localhost")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "news.example"])
def test_a_page_changes_and_reads_nothing(
    registry: RegistryServer, dashboards: str, host: str, tmp_path: Path
) -> None:
    """From another port of this machine, which is the same *site*, and from another name."""
    page = PAGE.replace("REGISTRY", registry.url).replace("DASHBOARDS", dashboards)
    news = News(page)
    try:
        with open_page(f"http://{host}:{news.port}/"):
            eventually(lambda: news.results, seconds=120, what="the page has tried everything")
    finally:
        news.close()
    (tried,) = news.results
    assert tried["read"] == tried["audit"] == tried["level"] == "failed"
    log = (tmp_path / "registry-access.log").read_text()
    assert "POST /subjects/by-form/versions" in log, "the browser sent no form"
    assert "POST /subjects/by-no-cors/versions" in log, "the browser sent no simple request"
    assert httpx.get(f"{registry.url}/subjects").json() == []
    assert httpx.get(f"{registry.url}/config").json() == {"compatibilityLevel": "BACKWARD"}


def test_a_name_that_was_bound_anew_reads_nothing(
    registry: RegistryServer, dashboards: str
) -> None:
    """To the browser these are answers of evil.example: its pages may read all of them."""
    httpx.post(f"{registry.url}/subjects/ours/versions", json={"schema": '"int"'})
    port = registry.url.rpartition(":")[2]
    seen = text_of_page(f"http://evil.example:{port}/subjects")
    assert "ours" not in seen
    assert "is no name of this server" in seen
    port = dashboards.rpartition(":")[2]
    seen = text_of_page(f"http://evil.example:{port}/")
    assert "clicks" not in seen
    assert "is no name of this server" in seen


def test_our_own_pages_go_on(dashboards: str, tmp_path: Path) -> None:
    """The overview loads all it needs, its live stream included, and may be linked to."""
    assert "clicks" in text_of_page(f"{dashboards}/")
    link = News(f'<meta http-equiv="refresh" content="0; url={dashboards}/?q=from-elsewhere">')
    log = tmp_path / "logs" / "dashboards-access.log"
    try:
        with open_page(f"http://news.example:{link.port}/"):
            eventually(lambda: "from-elsewhere" in log.read_text(), seconds=120)
            eventually(lambda: log.read_text().count("/static/") >= 2, seconds=120)
    finally:
        link.close()
    assert not [line for line in log.read_text().splitlines() if '" 403 ' in line]
