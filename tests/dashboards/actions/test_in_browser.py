"""An operator in a real browser, with a password: a window is accepted without JavaScript, and a
page of another origin cannot do it in the operator's name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner
from one_chromium import OneChromium
from playwright.sync_api import Page

from tallymark.cli.admin.users import command as users
from tallymark.deployment import DashboardSettings, Deployment, HttpSecurity
from tallymark.deployment.dashboards import DashboardRoles
from tallymark.processes.ports import with_free_ports
from tallymark_audit.store import Store
from tallymark_audit.store.reading.runs import DecisionsAsked, decision_page
from tallymark_dashboards.server import DashboardServer

NOON = 1_767_268_800_000
WINDOW = f"edge=dc1-to-aggregate&topic=clicks&window={NOON}"
pytestmark = [pytest.mark.process, pytest.mark.browser, pytest.mark.timeout(300)]
FORGED = """<!doctype html><title>news</title><body onload="document.forms[0].submit()">
<form method="post" action="SITE/act/accept">
<input name="edge" value="dc1-to-aggregate"><input name="topic" value="clicks">
<input name="window" value="WINDOW"><input name="token" value="TOKEN"></form>"""


@pytest.fixture
def site(tmp_path: Path, filled: Store) -> Iterator[str]:
    folder = tmp_path / "web"
    folder.mkdir()
    made = CliRunner().invoke(
        users, ["add", "alice", "--data", str(folder), "--password-file", "-"], input="secret\n"
    )
    assert made.exit_code == 0, made.output
    settings = DashboardSettings(port=0, actions=True, roles=DashboardRoles(operator=("alice",)))
    deployment = with_free_ports(
        Deployment(
            data_dir=tmp_path,
            dashboards=settings,
            security=HttpSecurity(users_file=str(folder / "security.json")),
        )
    )
    server = DashboardServer(deployment)
    yield deployment.dashboards.url
    server.close()


@pytest.fixture
def alice(chromium: OneChromium) -> Iterator[Page]:
    with chromium.shown() as browser:
        context = browser.new_context(
            http_credentials={"username": "alice", "password": "secret"}, java_script_enabled=False
        )
        yield context.new_page()


def decided(store: Store) -> list[str]:
    with store.read() as connection:
        return [row["action"] for row in decision_page(connection, DecisionsAsked())]


def test_a_window_is_accepted_by_three_clicks(alice: Page, site: str, filled: Store) -> None:
    alice.goto(f"{site}/window?{WINDOW}")
    alice.click("#actions >> text=Accept as it is")
    alice.fill("input[name=note]", "known <b>since Friday</b>")
    alice.click("button.do")
    assert alice.url.startswith(f"{site}/window?")
    alice.wait_for_load_state()
    text = alice.inner_text("main")
    assert "accepted by alice" in text
    assert "known <b>since Friday</b>" in text
    assert decided(filled) == ["accept"]
    alice.click("#actions >> text=Take the acceptance back")
    alice.click("button.do")
    assert decided(filled) == ["withdraw", "accept"]


@pytest.mark.soak
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_accepts_nothing(
    alice: Page, site: str, filled: Store, host: str
) -> None:
    """The browser sends the password with the form, and even the token was stolen."""
    alice.goto(f"{site}/act/accept?{WINDOW}")
    token = alice.get_attribute("input[name=token]", "value") or ""
    page = FORGED.replace("SITE", site).replace("WINDOW", str(NOON)).replace("TOKEN", token)
    with OtherSite(page) as port:
        scripted = alice.context.browser
        assert scripted is not None
        context = scripted.new_context(
            http_credentials={"username": "alice", "password": "secret"},
            storage_state=alice.context.storage_state(),
        )
        victim = context.new_page()
        with victim.expect_response(lambda one: one.url.endswith("/act/accept")) as answered:
            victim.goto(f"http://{host}:{port}/")
        assert answered.value.status == 403
    assert decided(filled) == []


class OtherSite:
    """A server with one page, on a port of its own."""

    def __init__(self, page: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page.encode())

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> int:
        self._thread.start()
        return int(self._server.server_address[1])

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
