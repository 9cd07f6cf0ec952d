"""Dashboards behind a proxy that lets people log in: alice is an operator, bob may look."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tallymark.deployment import Deployment
from tallymark.deployment.dashboards import DashboardRoles, DashboardSettings, ProxyLogin
from tallymark.net.web.access import PEER, WebAccess
from tallymark.net.web.guard import OwnNames
from tallymark_audit.store import Store
from tallymark_dashboards.access.forwarded import Forwarded
from tallymark_dashboards.access.identity import TrustedProxy
from tallymark_dashboards.access.login import DashboardLogin
from tallymark_dashboards.actions.desk import RepairDesk
from tallymark_dashboards.app.application import create_app

HOST = "http://testserver"
PROXY = "10.0.0.7"
SETTINGS = DashboardSettings(
    actions=True,
    roles=DashboardRoles(operator=("alice", "carol")),
    proxy=ProxyLogin(trusted_peers=(PROXY,)),
)


class Browser:
    """A browser of one user: it keeps cookies, sends what browsers send with forms, and follows no
    redirect by itself."""

    def __init__(self, app: Any, user: str) -> None:
        self.client = TestClient(app, base_url=HOST, follow_redirects=False)
        self.user = user

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(path, headers={"X-Forwarded-User": self.user, **headers})

    def open(self, path: str) -> dict[str, str]:
        """The fields of the form on a page."""
        return fields_of(self.get(path).text)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Any:
        sent = {
            "X-Forwarded-User": self.user,
            "Origin": HOST,
            "Sec-Fetch-Site": "same-origin",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return self.client.post(path, data=fields, headers={k: v for k, v in sent.items() if v})


def fields_of(html: str) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', html)
    return {name: value.replace("&amp;", "&") for name, value in found}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(data_dir=tmp_path, dashboards=SETTINGS)


@pytest.fixture
def desk(deployment: Deployment, filled: Store) -> Iterator[RepairDesk]:
    desk = RepairDesk(deployment, filled)
    yield desk
    desk.close()  # before the store: a look at upstream may still read it


@pytest.fixture
def app_of() -> Iterator[Callable[..., Callable[[str], Browser]]]:
    """Makes browsers of the dashboards of a store."""
    with ExitStack() as stack:

        def make(
            store: Store,
            deployment: Deployment,
            desk: RepairDesk,
            settings: DashboardSettings = SETTINGS,
        ) -> Callable[[str], Browser]:
            proxied = deployment.model_copy(update={"dashboards": settings})
            app = create_app(proxied, store, desk=desk)
            access = WebAccess(
                OwnNames(("testserver", "tallymark.example")), login=DashboardLogin(proxied, None)
            )
            inner = Forwarded(access.around(app), TrustedProxy(settings.proxy))

            async def through_the_proxy(scope: Any, receive: Any, send: Any) -> None:
                scope[PEER] = (PROXY, 1)
                await inner(scope, receive, send)

            stack.enter_context(TestClient(app))  # its lifespan
            return lambda user: Browser(through_the_proxy, user)

        yield make


@pytest.fixture
def browser(
    app_of: Callable[..., Callable[[str], Browser]],
    deployment: Deployment,
    filled: Store,
    desk: RepairDesk,
) -> Callable[[str], Browser]:
    return app_of(filled, deployment, desk)
