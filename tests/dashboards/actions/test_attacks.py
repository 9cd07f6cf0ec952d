"""Attackers change nothing: without a role, without a form of ours, from other sites, by GET."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import select

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark_audit.store import Store
from tallymark_audit.store.reading.runs import DecisionsAsked, decision_page
from tallymark_audit.store.schema.tables import reporters, verdicts
from tallymark_dashboards.access.form_tokens import LASTS_MS
from tallymark_dashboards.actions import forms
from tallymark_dashboards.actions.desk import RepairDesk

NOON = 1_767_268_800_000
WINDOW = f"edge=dc1-to-aggregate&topic=clicks&window={NOON}"
ACCEPT = f"/act/accept?{WINDOW}"
Browsers = Callable[[str], Any]
PATHS = [
    ACCEPT,
    f"/act/withdraw?{WINDOW}",
    "/act/retire?reporter=r1",
    "/act/pause",
    "/act/resume",
    f"/act/repair?{WINDOW}",
]


@pytest.fixture
def unchanged(filled: Store) -> Callable[[], bool]:
    def look() -> Any:
        with filled.read() as connection:
            accepted = connection.execute(select(verdicts.c.accepted_by)).scalars().all()
            retired = connection.execute(select(reporters.c.retired_at)).scalars().all()
            return accepted, retired, decision_page(connection, DecisionsAsked())

    before = look()
    return lambda: look() == before


@pytest.mark.parametrize("path", PATHS)
def test_a_get_changes_nothing(browser: Browsers, unchanged: Callable[[], bool], path: str) -> None:
    """A link in a mail, which the operator's browser follows with the operator's password."""
    alice = browser("alice")
    token = alice.open(path).get("token", "x")
    mark = "&" if "?" in path else "?"
    found = alice.get(f"{path}{mark}token={token}&for=1h&note=x")
    assert found.status_code == 200
    assert unchanged()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_no_other_method_is_taken(browser: Browsers, method: str) -> None:
    alice = browser("alice")
    fields = alice.open(ACCEPT)
    headers = {"X-Forwarded-User": "alice", "Origin": "http://testserver"}
    found = alice.client.request(method, "/act/accept", data=fields, headers=headers)
    assert found.status_code == 405


@pytest.mark.parametrize("path", PATHS)
def test_a_viewer_changes_nothing_and_is_told_why(
    browser: Browsers, unchanged: Callable[[], bool], path: str
) -> None:
    bob = browser("bob")
    page = bob.get(path)
    assert page.status_code == 200
    assert 'name="token"' not in page.text
    assert "The user bob may look here" in page.text
    assert "tallymark audit" in page.text, "the command that does the same is shown"
    stolen = browser("alice").open(path)
    found = bob.post(path.partition("?")[0], stolen)
    assert found.status_code == 403
    assert "operator in [dashboards.roles]" in found.text
    assert unchanged()


def test_where_actions_are_off_not_even_an_operator_acts(
    browser: Browsers,
    app_of: Callable[..., Browsers],
    deployment: Deployment,
    filled: Store,
    unchanged: Callable[[], bool],
) -> None:
    fields = browser("alice").open(ACCEPT)
    off = deployment.dashboards.model_copy(update={"actions": False})
    alice = app_of(filled, deployment, RepairDesk(deployment, filled), off)("alice")
    found = alice.post("/act/accept", fields)
    assert found.status_code == 403
    assert "actions = true" in found.text
    assert 'name="token"' not in alice.get(ACCEPT).text
    assert unchanged()


@pytest.mark.parametrize(
    "token", ["", "x", "1.", "9" * 15 + "." + "0" * 64, "-1." + "0" * 64, "é.\x00", None]
)
def test_a_forged_token_changes_nothing(
    browser: Browsers, unchanged: Callable[[], bool], token: str | None
) -> None:
    alice = browser("alice")
    fields = {**alice.open(ACCEPT), "token": token or ""}
    if token is None:
        del fields["token"]
    found = alice.post("/act/accept", fields)
    assert found.status_code == 403
    assert "nothing was changed" in found.text
    assert unchanged()
    again = forms_in(found.text)
    assert again["topic"] == "clicks", "the form is shown again, ready to be sent"
    assert alice.post("/act/accept", again).status_code == 303


def forms_in(html: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', html))


def test_the_form_of_another_user_changes_nothing(
    browser: Browsers, unchanged: Callable[[], bool]
) -> None:
    """Mallory may act, too, and puts a form of hers before Alice: what Alice sends must be of a
    form that was made for Alice."""
    carol, alice = browser("carol"), browser("alice")
    alice.open(ACCEPT)
    assert alice.post("/act/accept", carol.open(ACCEPT)).status_code == 403
    assert unchanged()


def test_the_form_of_another_browser_changes_nothing(
    browser: Browsers, unchanged: Callable[[], bool]
) -> None:
    fields = browser("alice").open(ACCEPT)
    elsewhere = browser("alice")
    assert elsewhere.post("/act/accept", fields).status_code == 403
    assert unchanged()


def test_the_form_of_another_action_changes_nothing(
    browser: Browsers, unchanged: Callable[[], bool]
) -> None:
    alice = browser("alice")
    pause = alice.open("/act/pause")
    fields = {**alice.open(ACCEPT), "token": pause["token"]}
    assert alice.post("/act/accept", fields).status_code == 403
    assert unchanged()


def test_an_old_form_changes_nothing_and_is_shown_again(
    browser: Browsers, unchanged: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = browser("alice")
    fields = alice.open(ACCEPT)
    monkeypatch.setattr(forms, "now_ms", lambda: now_ms() + LASTS_MS)
    found = alice.post("/act/accept", {**fields, "note": "mine"})
    assert found.status_code == 403
    assert "more than an hour ago" in found.text
    assert unchanged()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "https://evil.example", "Sec_Fetch_Site": ""},
        {"Origin": "http://testserver.evil.example", "Sec_Fetch_Site": ""},
        {"Origin": "http://testserver:8081", "Sec_Fetch_Site": "same-site"},
        {"Origin": "http://testserver:8081", "Sec_Fetch_Site": ""},
        {"Origin": "null", "Sec_Fetch_Site": ""},
        {"Origin": "null", "Sec_Fetch_Site": "same-origin"},
        {"Origin": "", "Sec_Fetch_Site": ""},
        {"Origin": "", "Sec_Fetch_Site": "none"},
        {"Origin": "http://testserver", "Sec_Fetch_Site": "cross-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(
    browser: Browsers, unchanged: Callable[[], bool], headers: dict[str, str]
) -> None:
    """Even with a token that was stolen."""
    alice = browser("alice")
    found = alice.post("/act/accept", alice.open(ACCEPT), **headers)
    assert found.status_code == 403
    assert unchanged()


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "a/b", ""])
def test_only_a_form_is_read(browser: Browsers, unchanged: Callable[[], bool], kind: str) -> None:
    alice = browser("alice")
    fields = alice.open(ACCEPT)
    headers = {
        "X-Forwarded-User": "alice",
        "Origin": "http://testserver",
        "Sec-Fetch-Site": "same-origin",
        "Content-Type": kind,
    }
    body = "&".join(f"{name}={value}" for name, value in fields.items())
    found = alice.client.post("/act/accept", content=body, headers=headers)
    assert found.status_code == 415
    assert unchanged()


def test_an_endless_form_is_not_read(browser: Browsers, unchanged: Callable[[], bool]) -> None:
    alice = browser("alice")
    fields = {**alice.open(ACCEPT), "note": "x" * forms.MAX_BODY}
    assert alice.post("/act/accept", fields).status_code == 413
    many = {f"n{number}": "" for number in range(forms.MOST_FIELDS + 1)}
    assert alice.post("/act/accept", many).status_code == 400
    assert unchanged()


def test_the_cookie_is_never_sent_from_other_sites(browser: Browsers) -> None:
    given = browser("alice").get(ACCEPT).headers["set-cookie"].lower()
    assert "samesite=strict" in given
    assert "httponly" in given
    assert "path=/" in given
    assert "secure" not in given
    behind = browser("alice").get(
        ACCEPT, **{"X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/audit"}
    )
    assert "secure" in behind.headers["set-cookie"].lower()
    assert "path=/audit;" in behind.headers["set-cookie"].lower()


def test_a_form_over_plain_http_comes_from_the_host_that_the_proxy_names(
    browser: Browsers, unchanged: Callable[[], bool]
) -> None:
    """Over plain HTTP browsers say only ``Origin``; the proxy asks us by another host."""
    alice = browser("alice")
    outside = {"Origin": "http://tallymark.example", "Sec_Fetch_Site": ""}
    assert alice.post("/act/accept", alice.open(ACCEPT), **outside).status_code == 403
    evil = {**outside, "X_Forwarded_Host": "evil.example", "Origin": "http://evil.example"}
    assert alice.post("/act/accept", alice.open(ACCEPT), **evil).status_code == 421
    assert unchanged()
    named = {**outside, "X_Forwarded_Host": "tallymark.example", "X_Forwarded_Prefix": "/audit"}
    done = alice.post("/act/accept", alice.open(ACCEPT), **named)
    assert done.status_code == 303
    assert done.headers["location"].startswith("/audit/window?")
    assert not unchanged()


def test_a_form_cannot_be_embedded_nor_sent_elsewhere(browser: Browsers) -> None:
    policy = browser("alice").get(ACCEPT).headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self'" in policy
    assert "unsafe" not in policy
    assert browser("alice").get(ACCEPT).headers["cache-control"] == "no-store"


EVIL = '"><script>alert(1)</script>\u202e'


@pytest.mark.parametrize(
    "path",
    [
        "/act/accept?edge={0}&topic={0}&window=1",
        "/act/accept?edge=x&topic=y&window={0}",
        "/act/retire?reporter={0}",
        "/act/repair?edge={0}&topic={0}&window=1",
        "/act/repair?edge=x&topic=y&from={0}&to=9",
        "/act/pause?for={0}",
    ],
)
def test_what_an_address_says_is_never_html(browser: Browsers, path: str) -> None:
    page = browser("alice").get(path.format(quote(EVIL)))
    assert "<script>alert" not in page.text
    assert "\u202e" not in page.text
    assert page.headers["content-type"].startswith("text/html")


def test_reasons_and_names_are_never_html(browser: Browsers, filled: Store) -> None:
    alice = browser("alice")
    with filled.write() as connection:
        connection.execute(
            reporters.insert().values(cluster="dc1", reporter=EVIL, kind="producer", server=EVIL)
        )
    page = alice.get(f"/act/retire?reporter={quote(EVIL)}")
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert alice.post("/act/accept", {**alice.open(ACCEPT), "note": EVIL}).status_code == 303
    shown = alice.get(f"/window?{WINDOW}").text
    assert "accepted by alice" in shown
    assert "<script>alert" not in shown


@pytest.mark.parametrize(
    "window", ["", "abc", "-1", "9" * 40, "1e9", "٣", "1767268800000 or 1=1", "0x10"]
)
def test_a_window_that_is_none_is_told(
    browser: Browsers, unchanged: Callable[[], bool], window: str
) -> None:
    alice = browser("alice")
    fields = {**alice.open(ACCEPT), "window": window}
    assert alice.post("/act/accept", fields).status_code == 409
    assert alice.post("/act/repair", {**alice.open(PATHS[-1]), "from": window}).status_code == 409
    assert unchanged()
