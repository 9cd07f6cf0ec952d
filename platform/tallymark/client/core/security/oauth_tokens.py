"""Sources of a client's tokens (OAUTHBEARER): a file, the application, or a token endpoint, which
issues them for a client id and its secret (RFC 6749, section 4.4: client_credentials).

A token of an endpoint is used for all connections of the client, until :data:`USED_FOR` of its
life is over. The file is read and the application is called for each log-in: they renew tokens
themselves.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from tallymark.client.core.calls import in_thread
from tallymark.errors import AuthenticationError, ConnectError, TallymarkError
from tallymark.net.sasl.oauth_urls import LOOPBACK

USED_FOR: Final = 0.8
"""The part of its life for which a token is used. It is less than the part after which a connection
logs in again (:data:`tallymark.net.client.reauthentication.EARLIEST`), so that it then gets a fresh
token."""
MAX_BYTES: Final = 64 * 1024
TIMEOUT: Final = 8.0
"""Seconds to get a token; less than the time to open a connection."""

Asked = Callable[[], object]
"""A function of the application that returns a token: a text that is not empty. Any other value is
refused."""


def from_thread(ask: Asked) -> Callable[[], Awaitable[str]]:
    """``ask``, which may block, as a coroutine function. An exception that is no TallymarkError
    becomes a ConnectError, and the client tries again."""

    def asked() -> str:
        try:
            token = ask()
        except TallymarkError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise ConnectError("sasl_oauthbearer_token_provider", "token", why) from error
        if not isinstance(token, str) or not token:
            why = f"it returned {type(token).__name__}, a text with a token is wanted"
            raise AuthenticationError("sasl_oauthbearer_token_provider", "token", why)
        return token.strip()

    return lambda: in_thread("tallymark-token", asked)


def in_file(path: Path) -> Asked:
    """Reads the token in a file at each call, since another program renews it."""

    def ask() -> str:
        try:
            with path.open("rb") as file:
                text = file.read(MAX_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no token"
            raise ConnectError(str(path), "token", str(why)) from error
        if not text:
            raise ConnectError(str(path), "token", "the file is empty")
        return text

    return ask


class TokenEndpoint:
    """Requests tokens for ``client_id`` from ``url``. Thread-safe; one request at a time, however
    many connections there are. ``now``: seconds since 1970, UTC."""

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        scope: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._who = (client_id, client_secret)
        self._scope = scope
        self._now = now
        self._lock = threading.Lock()
        self._token = ""
        self._good_until = 0.0

    def __call__(self) -> str:
        """A token that is valid for some time. ConnectError: the endpoint did not return one now;
        AuthenticationError: the endpoint refuses us."""
        with self._lock:
            now = self._now()
            if now >= self._good_until:
                answer = self._ask()
                token = answer.get("access_token")
                if not isinstance(token, str) or not token:
                    raise self._refused("the answer has no access_token")
                self._token = token
                self._good_until = now + USED_FOR * _life(answer, token, now)
            return self._token

    def _ask(self) -> dict[str, Any]:
        import httpx  # 0.1 s to import

        form = {"grant_type": "client_credentials"}
        if self._scope:
            form["scope"] = self._scope
        # RFC 6749, section 2.3.1: both are encoded before they become a user and a password.
        who = (quote(self._who[0], safe=""), quote(self._who[1], safe=""))
        deadline = time.monotonic() + TIMEOUT
        found = bytearray()
        try:
            with (
                httpx.Client(
                    timeout=TIMEOUT,
                    trust_env=urlsplit(self._url).hostname not in LOOPBACK,
                    headers={"accept": "application/json", "accept-encoding": "identity"},
                ) as client,
                client.stream("POST", self._url, data=form, auth=who) as answer,
            ):
                for part in answer.iter_raw():
                    found += part
                    if len(found) > MAX_BYTES or time.monotonic() > deadline:
                        raise ConnectError(
                            self._url, "token", "the answer is too long, or too slow"
                        )
                code = answer.status_code
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            why = str(error) or type(error).__name__
            raise ConnectError(self._url, "token", why) from error
        try:
            document = json.loads(bytes(found))
        except (ValueError, RecursionError):
            document = {}
        if code in (400, 401, 403):
            said = document.get("error", "") if isinstance(document, dict) else ""
            raise self._refused(f"HTTP {code} {str(said)[:100]!r}; are client id and secret right?")
        if code != 200 or not isinstance(document, dict):
            raise ConnectError(self._url, "token", f"HTTP {code}, which is no answer with a token")
        return document

    def _refused(self, why: str) -> AuthenticationError:
        return AuthenticationError(self._url, "token", why)


def _life(answer: dict[str, Any], token: str, now: float) -> float:
    """For how many seconds the token is valid; 0 where neither the response nor the token says it:
    the token is used once then."""
    for seconds in (answer.get("expires_in"), _expires(token) - now):
        if isinstance(seconds, int | float) and 0 < seconds < 2**53:
            return float(seconds)
    return 0.0


def _expires(token: str) -> float:
    """The expiry in the token itself, if it is a JWT. The signature is not checked: that is the
    broker's task."""
    try:
        text = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0.0
