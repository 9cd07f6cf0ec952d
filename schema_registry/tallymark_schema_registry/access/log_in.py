"""Which user or program makes a request: HTTP Basic (RFC 7617) for users, bearer tokens (RFC 6750)
for programs.

Credentials that were verified are remembered, so a request costs microseconds, and a password is
hashed once. What is remembered ends with a change of the accounts, with the token's time, and
after some time without use. Refusals wait for their turn, as :mod:`tallymark.net.web.login` says.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from tallymark.deployment import RegistryTokens
from tallymark.errors import UserError
from tallymark.net.addresses import sender
from tallymark.net.limits.failed_login_delay import FailedLoginDelay
from tallymark.net.limits.log_rate import LogRate
from tallymark.net.web.access_log import App, Message, Receive, Send
from tallymark.net.web.login import (
    MAX_HELD,
    OPEN_PATHS,
    Attempt,
    BasicLogin,
    Passwords,
    refused,
)
from tallymark.net.web.refusal import send_refusal
from tallymark.net.web.remembered import Remembered
from tallymark.net.web.users import WebUsers
from tallymark_schema_registry.access.access_file import (
    AccessFile,
    TokenEntry,
    UsersWithAllRights,
)
from tallymark_schema_registry.access.grants import EVERYBODY, Grants, Principal

log = logging.getLogger(__name__)

PRINCIPAL: Final = "tallymark.principal"
"""Where a request's scope has its :class:`~.grants.Principal`."""
AT_LEAST_SECONDS: Final = 0.5
"""As for :class:`~tallymark.net.web.login.BasicLogin`, whose hashes are not as slow."""
BEARER_CHALLENGE: Final = 'Bearer realm="tallymark"'

_LONGEST_TOKEN: Final = 16_384
_OPEN: Final = OPEN_PATHS | {"/_health", "/master_available"}
"""Those of another registry, too, which its health checks ask."""
_NOBODY: Final = Principal("", Grants())


class AccountSource(Passwords, Protocol):
    """Passwords and tokens, and whose they are: an :class:`~.access_file.AccessFile`."""

    def user(self, name: str) -> Principal | None:
        """The user who has logged in by this name."""
        ...

    def token(self, token: bytes) -> TokenEntry | None:
        """Whose token it is, whether or not it has expired."""
        ...

    def of_roles(self, names: Iterable[str]) -> Grants:
        """The grants of some roles; names that are no role give none."""
        ...


class WebTokens(Protocol):
    """Tokens of an issuer: :class:`~.web_tokens.WebTokenRules`."""

    def start(self) -> None:
        """Read the issuer's keys from now on."""
        ...

    async def stop(self) -> None:
        """Read no more."""
        ...

    def check(self, token: bytes, now: float) -> tuple[str, float, frozenset[str]] | None:
        """The user, when the token ends, and its roles; None where it is not good."""
        ...


class LoggedIn(NamedTuple):
    """The result of a log-in: ``status`` 200, 401 or 429, and the principal where it is 200."""

    status: int
    principal: Principal | None = None


class RegistryLogIn:
    """Finds principals by ``Authorization`` headers. Belongs to one event loop. ``clock`` is
    monotonic, ``now`` since 1970, both in seconds."""

    def __init__(
        self,
        source: AccountSource,
        web_tokens: WebTokens | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._source = source
        self._web_tokens = web_tokens
        self._of_web_tokens: Remembered[Principal] = Remembered(clock)
        self._version: object = None
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._basic = BasicLogin(source, clock, sleep, AT_LEAST_SECONDS)
        self._pace = FailedLoginDelay()
        self._held = 0
        self._log_rate = LogRate()

    @property
    def generation(self) -> object:
        """A value that differs after users, tokens or grants have changed."""
        return self._source.version

    def principal_of(self, authorization: bytes) -> Principal | None:
        """The user of these credentials, if that is known without work: None does not mean that
        they are wrong, :meth:`log_in` finds out. What is remembered for one principal is true for
        others with the same ``grants.view``, and for none after a change, since views are new
        then."""
        token = _token(authorization)
        if token is not None:
            return self._of_token(token) or self._of_known_web_token(token)
        user = self._basic.remembered(authorization)
        return None if user is None else self._source.user(user)

    async def log_in(self, authorization: bytes, host: str) -> LoggedIn:
        """Check the header as received; ``host`` is the address of the client."""
        principal = self.principal_of(authorization)
        if principal is not None:
            return LoggedIn(200, principal)
        token = _token(authorization)
        if token is not None:
            principal = self._of_web_token(token)
            if principal is not None:
                return LoggedIn(200, principal)
            await self._refuse(host)
            return LoggedIn(401)
        attempt = await self._basic.check(authorization, host)
        if attempt.status != 200:
            return LoggedIn(attempt.status)
        principal = self._source.user(attempt.user)
        return LoggedIn(401) if principal is None else LoggedIn(200, principal)

    async def check(self, authorization: bytes, host: str) -> Attempt:
        """See :class:`tallymark.net.web.access.LogIn`."""
        found = await self.log_in(authorization, host)
        return Attempt(found.status, found.principal.name if found.principal else "")

    def start(self) -> None:
        """When the server starts, on its loop."""
        if self._web_tokens is not None:
            self._web_tokens.start()

    async def stop(self) -> None:
        """When the server ends."""
        if self._web_tokens is not None:
            await self._web_tokens.stop()

    def around(self, app: App) -> App:
        """``app`` for those who have logged in; it finds them in the scope."""
        return RequestLogIn(app, self)

    def _of_token(self, token: bytes) -> Principal | None:
        found = self._source.token(token)
        if found is None or found.expires <= self._now():
            return None
        return found.principal

    def _of_known_web_token(self, token: bytes) -> Principal | None:
        if self._web_tokens is None:
            return None
        version = self._source.version
        if version != self._version:
            self._of_web_tokens.clear()
            self._version = version
        return self._of_web_tokens.get(self._of_web_tokens.digest(token))

    def _of_web_token(self, token: bytes) -> Principal | None:
        if self._web_tokens is None or token.count(b".") != 2:
            return None
        now = self._now()
        found = self._web_tokens.check(token, now)
        if found is None:
            return None
        user, ends, roles = found
        principal = Principal(f"oidc:{user}", self._source.of_roles(roles))
        self._of_web_tokens.put(self._of_web_tokens.digest(token), principal, ends - now)
        return principal

    async def _refuse(self, host: str) -> None:
        """Wait until a wrong token may be refused; tokens cannot be guessed, but refusals are work,
        too."""
        now = self._clock()
        due = self._pace.come(host, now)
        held_back = self._log_rate.passes(sender(host))
        if held_back is not None:
            log.warning("token refused from=%s held_back=%d", sender(host), held_back)
        if self._held < MAX_HELD:
            self._held += 1
            try:
                await self._sleep(due - now)
            finally:
                self._held -= 1


class RequestLogIn:
    """Wraps ``app``: only clients that have logged in reach it, but for health checks."""

    def __init__(self, app: App, log_in: RegistryLogIn) -> None:
        self._app = app
        self._log_in = log_in

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, self._lifespan(receive), send)
            return
        if scope["type"] != "http" or scope["path"] in _OPEN:
            scope[PRINCIPAL] = _NOBODY
            await self._app(scope, receive, send)
            return
        headers = dict(reversed(scope["headers"]))
        client = scope.get("client")
        authorization = headers.get(b"authorization", b"")
        found = await self._log_in.log_in(authorization, client[0] if client else "?")
        if found.principal is not None:
            scope[PRINCIPAL] = found.principal
            await self._app(scope, receive, send)
            return
        text, more = refused(found.status)
        answer = [(name.lower().encode(), value.encode()) for name, value in more.items()]
        if found.status == 401:
            answer.append((b"www-authenticate", BEARER_CHALLENGE.encode()))
        await send_refusal(send, headers, found.status, text, answer)

    def _lifespan(self, receive: Receive) -> Receive:
        async def received() -> Message:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._log_in.start()
            elif message["type"] == "lifespan.shutdown":
                await self._log_in.stop()
            return message

        return received


def registry_log_in(
    access_file: str, users_file: str, tokens: RegistryTokens | None = None
) -> RegistryLogIn | None:
    """How clients log in by the settings: at ``access_file``, which has rights too, or at
    ``users_file``, whose users may do everything; None where neither is set. UserError where a
    setting is wrong."""
    by_issuer = tokens is not None and bool(tokens.jwks)
    if by_issuer and not access_file:
        raise UserError(
            "[registry.tokens] takes tokens, but no role is defined",
            "set access_file in [registry], with the roles",
        )
    if access_file:
        rules = web_token_rules(tokens) if tokens is not None and by_issuer else None
        return RegistryLogIn(AccessFile(Path(access_file)), rules)
    if users_file:
        return RegistryLogIn(UsersWithAllRights(WebUsers(Path(users_file))))
    return None


def web_token_rules(tokens: RegistryTokens) -> WebTokens:
    """Checks tokens of an issuer. UserError without the extra ``oauth``."""
    try:
        from tallymark_schema_registry.access.web_tokens import WebTokenRules
    except ImportError as error:
        raise UserError(
            "tokens of an issuer need a package that is not installed",
            "pip install 'tallymark[oauth]'",
        ) from error
    return WebTokenRules(tokens)


def principal_in(scope: Mapping[str, object]) -> Principal:
    """The principal of a request; without log-ins one that may do everything."""
    found = scope.get(PRINCIPAL, EVERYBODY)
    assert isinstance(found, Principal)
    return found


def _token(authorization: bytes) -> bytes | None:
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() != b"bearer" or len(value) > _LONGEST_TOKEN:
        return None
    return value.strip()
