"""The log-in in front of the dashboards: a user of the users file (HTTP Basic), or one that a
trusted proxy names. It puts the user into the ASGI scope, where pages and actions find it.

::

    /healthz, /readyz             -> everyone: a program that checks processes has no password
    the peer is a trusted proxy   -> the user that its headers name; without them as below
    a users file                  -> name and password; else 401
    no users file                 -> 401: come through the proxy
    no role of the settings       -> 403
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark.net.web.access_log import USER, App, Message, Receive, Send
from tallymark.net.web.login import Attempt, BasicLogin, refused
from tallymark.net.web.refusal import send_refusal
from tallymark.net.web.users import WebUsers
from tallymark_dashboards.access.forwarded import PREFIX
from tallymark_dashboards.access.identity import (
    Identity,
    TrustedProxy,
    address_of,
    peer_of,
    user_with_roles,
)
from tallymark_dashboards.access.user import VIEWER, User

OPEN_PATHS: Final = ("/healthz", "/readyz")


def login_of(deployment: Deployment) -> DashboardLogin | None:
    """The log-in that the settings ask for; None: everyone may look. UserError: the users cannot be
    read, or actions are on and there is no log-in."""
    settings, users = deployment.dashboards, deployment.security.users_file
    basic = BasicLogin(WebUsers(Path(users))) if users else None
    if basic is None and not settings.proxy.logs_in:
        if settings.actions:
            raise UserError(
                "dashboards.actions is on, and no log-in says who acts",
                "set users_file in [security] or trusted_peers in [dashboards.proxy], and operator"
                " in [dashboards.roles]",
            )
        return None
    return DashboardLogin(deployment, basic)


class DashboardLogin:
    """Lets users in, see the module's text. ``basic``: the users file; None: there is none."""

    def __init__(self, deployment: Deployment, basic: BasicLogin | None) -> None:
        settings = deployment.dashboards
        self.basic = basic
        self.proxy = TrustedProxy(settings.proxy)
        self.roles = settings.roles
        self.console = deployment.console_url
        self.prefix = settings.path_prefix

    def around(self, app: App) -> App:
        """``app`` for users that may look."""
        return _LoggedIn(app, self)

    async def check(self, authorization: bytes, host: str) -> Attempt:
        """Check a user name and a password: the header as received, the address of the client."""
        if self.basic is None:
            return Attempt(401)
        return await self.basic.check(authorization, host)

    async def user(self, scope: Message) -> tuple[User, int, str]:
        """The user of the request, with status 200; else why the request is refused."""
        if self.proxy.trusts(peer_of(scope)):
            found = self.proxy.identity(scope["headers"])
            if found is not None and found.wrong:
                return VIEWER, 400, found.wrong
            if found is not None:
                return self._with_roles(found)
        headers: Mapping[bytes, bytes] = dict(reversed(scope["headers"]))
        given = headers.get(b"authorization", b"")
        attempt = await self.check(given, address_of(scope.get("client")))
        if attempt.status == 200:
            return self._with_roles(Identity(attempt.user))
        text, _ = refused(attempt.status)
        if self.basic is None:
            text = f"log in at {self.console}: a proxy there says who you are"
        return VIEWER, attempt.status, text

    def _with_roles(self, identity: Identity) -> tuple[User, int, str]:
        user = user_with_roles(identity, self.roles)
        if not user.may_view:
            return (
                user,
                403,
                f"{user.name} has no role here: see [dashboards.roles] in the settings",
            )
        return user, 200, ""


class _LoggedIn:
    """The application behind the log-in."""

    def __init__(self, app: App, login: DashboardLogin) -> None:
        self._app = app
        self._login = login

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        login = self._login
        prefix = scope.get(PREFIX, login.prefix)
        if scope["path"].removeprefix(prefix) in OPEN_PATHS:
            user, status, text = VIEWER, 200, ""
        else:
            user, status, text = await login.user(scope)
        if status == 200:
            scope[USER] = user
            scope["headers"] = login.proxy.without(scope["headers"])
            await self._app(scope, receive, send)
            return
        more: dict[str, str] = {}
        if login.basic is not None and status in (401, 429):
            more = refused(status)[1]
        answer = [(name.lower().encode(), value.encode()) for name, value in more.items()]
        await send_refusal(send, dict(scope["headers"]), status, text, answer)
