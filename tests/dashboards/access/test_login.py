"""Who is let in, and as whom: attackers name themselves by headers, addresses and paths."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from tallymark.deployment import Deployment, HttpSecurity
from tallymark.deployment.dashboards import DashboardRoles, DashboardSettings, ProxyLogin
from tallymark.errors import UserError
from tallymark.net.web.access import PEER
from tallymark.net.web.access_log import USER
from tallymark.net.web.login import BasicLogin
from tallymark_dashboards.access.login import DashboardLogin, login_of
from tallymark_dashboards.access.user import User

PROXY, STRANGER = "10.0.0.7", "10.0.0.8"


class OnePassword:
    """Everyone's password is "right"."""

    version = 0

    def knows(self, name: str) -> bool:
        return True

    def fits(self, name: str, password: str) -> bool:
        return password == "right"


def settings(**given: Any) -> DashboardSettings:
    roles = DashboardRoles(viewer=("*",), operator=("alice", "group:sre"))
    proxy = ProxyLogin(trusted_peers=(PROXY, "fd00::/64", "127.0.0.1"))
    every: dict[str, Any] = {"roles": roles, "proxy": proxy, "actions": True, **given}
    return DashboardSettings(**every)


def ask(
    login: DashboardLogin,
    *headers: tuple[str, str],
    peer: str = PROXY,
    path: str = "/",
    client: str = "",
) -> tuple[User | None, int, bytes, list[tuple[bytes, bytes]]]:
    """The user that the application sees (None: it is not reached), the status, what is said, and
    the headers that the application sees."""
    seen: list[Any] = []
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    scope = {
        "type": "http",
        "path": path,
        "client": (client or peer, 1),
        PEER: (peer, 1),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
    }

    async def request() -> None:
        await login.around(app)(scope, receive, send)

    asyncio.run(request())
    user = seen[0][USER] if seen else None
    passed = seen[0]["headers"] if seen else []
    return user, sent[0]["status"], sent[1]["body"], passed


def proxied(**given: Any) -> DashboardLogin:
    return DashboardLogin(Deployment(dashboards=settings(**given)), None)


def basic(name: str, password: str = "right") -> tuple[str, str]:
    return "Authorization", "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


async def _no_sleep(_seconds: float) -> None:
    return None


def both() -> DashboardLogin:
    checked = BasicLogin(OnePassword(), sleep=_no_sleep, at_least=0)
    return DashboardLogin(Deployment(dashboards=settings()), checked)


def test_a_trusted_proxy_says_who_asks() -> None:
    user, status, _, _ = ask(proxied(), ("X-Forwarded-User", "alice"))
    assert status == 200
    assert user is not None
    assert (user.name, user.may_act) == ("alice", True)


def test_a_group_gives_a_role() -> None:
    user, *_ = ask(
        proxied(), ("X-Forwarded-User", "carol"), ("X-Forwarded-Groups", "staff, sre ,x")
    )
    assert user is not None
    assert user.may_act


def test_a_user_whose_name_is_that_of_a_group_is_not_in_it() -> None:
    user, *_ = ask(proxied(), ("X-Forwarded-User", "group:sre"))
    assert user is not None
    assert not user.may_act


@pytest.mark.parametrize("peer", [STRANGER, "10.0.0.70", "::ffff:10.0.0.8", "?", "", "testclient"])
def test_headers_of_anyone_else_are_ignored(peer: str) -> None:
    """Who reached the dashboards beside the proxy had only to say a name."""
    user, status, said, _ = ask(proxied(), ("X-Forwarded-User", "alice"), peer=peer)
    assert (user, status) == (None, 401)
    assert b"proxy" in said


def test_an_address_in_a_header_is_nobodys_address() -> None:
    """uvicorn takes the client's address from X-Forwarded-For where the connection comes from this
    machine: any program on it could call itself the proxy."""
    user, status, *_ = ask(proxied(), ("X-Forwarded-User", "alice"), peer=STRANGER, client=PROXY)
    assert (user, status) == (None, 401)


@pytest.mark.parametrize("peer", ["fd00::5", "::ffff:10.0.0.7", "fd00::5%eth0"])
def test_addresses_are_compared_as_addresses(peer: str) -> None:
    assert ask(proxied(), ("X-Forwarded-User", "alice"), peer=peer)[1] == 200


def test_a_header_that_the_proxy_passed_on_is_refused() -> None:
    """A proxy that adds its header beside the client's let everyone choose a name."""
    twice = (("X-Forwarded-User", "alice"), ("X-Forwarded-User", "mallory"))
    assert ask(proxied(), *twice)[:2] == (None, 400)
    groups = (("X-Forwarded-Groups", "sre"), ("X-Forwarded-Groups", "staff"))
    assert ask(proxied(), ("X-Forwarded-User", "mallory"), *groups)[:2] == (None, 400)


@pytest.mark.parametrize("name", ["a\u202eb", "a\tb", "x" * 251, " \u00a0 ", "\x1b[31m"])
def test_a_name_that_cannot_be_read_is_refused(name: str) -> None:
    assert ask(proxied(), ("X-Forwarded-User", name))[1] == 400


def test_the_application_never_sees_the_headers() -> None:
    login = both()
    mine = (("X-Forwarded-User", "alice"), ("X-Forwarded-Groups", "sre"), basic("bob"))
    for peer in (PROXY, STRANGER):
        passed = ask(login, *mine, peer=peer)[3]
        assert [name for name, _ in passed] == [b"authorization"]


def test_names_that_only_look_like_the_header_mean_nothing() -> None:
    assert ask(proxied(), ("X_Forwarded_User", "alice"))[:2] == (None, 401)


def test_a_stranger_with_a_password_is_who_the_password_says() -> None:
    user, *_ = ask(both(), ("X-Forwarded-User", "alice"), basic("bob"), peer=STRANGER)
    assert user is not None
    assert (user.name, user.may_act) == ("bob", False)


def test_a_wrong_password_is_refused() -> None:
    assert ask(both(), basic("alice", "wrong"), peer=STRANGER)[:2] == (None, 401)


def test_a_user_without_a_role_sees_nothing() -> None:
    roles = DashboardRoles(viewer=("group:staff",))
    user, status, said, _ = ask(proxied(roles=roles), ("X-Forwarded-User", "mallory"))
    assert (user, status) == (None, 403)
    assert b"no role" in said


def test_a_proxy_at_which_people_do_not_log_in() -> None:
    """Its addresses are believed, and no log-in is asked for."""
    proxy = ProxyLogin(trusted_peers=(PROXY,), user_header="")
    silent = settings(proxy=proxy, actions=False)
    assert login_of(Deployment(dashboards=silent)) is None
    login = DashboardLogin(Deployment(dashboards=silent), None)
    assert ask(login, ("", "alice"))[:2] == (None, 401)
    with pytest.raises(UserError, match="no log-in"):
        login_of(Deployment(dashboards=settings(proxy=proxy)))


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/audit/healthz", "/audit/readyz"])
def test_health_needs_no_login_and_gives_no_user(path: str) -> None:
    login = proxied(path_prefix="/audit")
    user, status, *_ = ask(login, peer=STRANGER, path=path)
    assert status == 200
    assert user is not None
    assert user.name == ""


@pytest.mark.parametrize(
    "path",
    [
        "/healthz/", "//healthz", "/healthz/../", "/audit/audit/healthz", "/auditor/healthz",
        "/audit//healthz", "/HEALTHZ", "/healthz;/", "/api/healthz", "/audit", "/x/../healthz",
    ],
)  # fmt: skip
def test_no_other_path_is_open(path: str) -> None:
    assert ask(proxied(path_prefix="/audit"), peer=STRANGER, path=path)[1] == 401


def test_actions_without_a_login_are_refused_at_the_start(tmp_path: Path) -> None:
    nobody = Deployment(dashboards=DashboardSettings(actions=True))
    with pytest.raises(UserError, match="no log-in says who acts"):
        login_of(nobody)
    assert login_of(Deployment()) is None
    assert login_of(Deployment(dashboards=settings())) is not None
    with pytest.raises(UserError, match="cannot read the users"):
        login_of(Deployment(security=HttpSecurity(users_file=str(tmp_path / "none.json"))))
