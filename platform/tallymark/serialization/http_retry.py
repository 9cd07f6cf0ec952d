"""One HTTP request to the registry, sent again with back-off, and to another of its servers, as
long as that can help."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallymark.errors import ConnectError, TimedOutError
from tallymark.net.tls.contexts import client_context
from tallymark.serialization.addresses import Address, Credentials, Token, parse_addresses
from tallymark.serialization.errors import RegistryError

if TYPE_CHECKING:
    import httpx

ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_RETRIED: Final = frozenset((408, 429, 500, 502, 503, 504))
_NOT_DONE: Final = frozenset((429, 503))
"""The server did not begin what was asked for."""
_KEPT_S: Final = 4.0
"""An idle connection is closed before the server does it (ours after 5 s): a request on one that
the server closes at that moment fails, and the client cannot know whether it was carried out."""
_LONGEST_WAIT_S: Final = 10.0
"""Between two rounds, whatever ``Retry-After`` says."""
_CONNECT_S: Final = 3.0
"""For a connection, where there is another server to turn to."""


class Http:
    """``request`` is thread-safe. ``sleep`` and the back-off are parameters for tests only.

    ``urls``: one address or several of the same registry. A request goes to the server that
    answered last. ``attempts``: how often it goes to each of them.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        timeout_s: float,
        attempts: int,
        back_off_s: float = 0.1,
        sleep: Callable[[float], None] = time.sleep,
        *,
        truststore: Path | None = None,
        login: tuple[str, str] | None = None,
        token: Token = "",
    ) -> None:
        import httpx  # 0.1 s to import, and codecs without a registry are used in every producer

        self._httpx = httpx
        self._attempts = attempts
        self._back_off_s = back_off_s
        self._sleep = sleep
        self._timeout_s = timeout_s
        self.addresses = parse_addresses(urls)
        within = next((address.login for address in self.addresses if address.login), None)
        self._credentials = Credentials(login or within, token)
        self._clients = [self._client(address, truststore) for address in self.addresses]
        self._last = 0  # the server that answered last; one int, so threads need no lock

    def _client(self, address: Address, truststore: Path | None) -> httpx.Client:
        alone = len(self.addresses) == 1
        connect_s = self._timeout_s if alone else min(self._timeout_s, _CONNECT_S)
        return self._httpx.Client(
            base_url=address.url,
            timeout=self._httpx.Timeout(self._timeout_s, connect=connect_s),
            headers={"accept": ACCEPT, "user-agent": "tallymark"},
            # Plain HTTP needs no certificates, and loading them takes longer than the request.
            verify=client_context(truststore) if address.secure else False,
            auth=address.login or self._credentials.login,
            limits=self._httpx.Limits(keepalive_expiry=_KEPT_S),
            # A proxy of the environment is of no use for this machine itself.
            trust_env=not address.local,
        )

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a 200; None for an answer without a body.

        A DELETE goes out again only if it surely was not carried out; all else may be repeated.
        Raises RegistryError for any other answer, ConnectError when no server listens,
        TimedOutError when no answer came in time.
        """
        count = len(self._clients)
        for attempt in range(1, self._attempts + 1):
            wait_s = self._back_off_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
            first = self._last
            for step in range(count):
                place = (first + step) % count
                last = attempt == self._attempts and step == count - 1
                try:
                    response = self._send(place, method, path, body)
                except self._httpx.TransportError as error:
                    if last or not self._may_repeat(method, error):
                        raise self._explain(error, place, method, path) from error
                    continue
                if last or not _helps_again(method, response.status_code):
                    self._last = place
                    return self._read(response, place, method, path)
                wait_s = max(wait_s, _retry_after(response))
            self._sleep(wait_s)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _send(self, place: int, method: str, path: str, body: Any) -> httpx.Response:
        headers = self._credentials.headers()
        return self._clients[place].request(method, path, json=body, headers=headers)

    def _may_repeat(self, method: str, error: httpx.TransportError) -> bool:
        unsent = (self._httpx.ConnectError, self._httpx.ConnectTimeout, self._httpx.PoolTimeout)
        return method != "DELETE" or isinstance(error, unsent)

    def _explain(
        self, error: httpx.TransportError, place: int, method: str, path: str
    ) -> Exception:
        url = self.addresses[place].url
        if isinstance(error, self._httpx.TimeoutException) and not isinstance(
            error, self._httpx.ConnectTimeout
        ):
            return TimedOutError(
                f"the schema registry at {url} did not answer {method} {path} within "
                f"{self._timeout_s:g} s"
            )
        reason = str(error) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            return ConnectError(
                url, "tls", f"{reason}; name the PEM file of its authority as "
                "ssl_truststore_location"
            )  # fmt: skip
        others = [address.url for address in self.addresses if address.url != url]
        if others:
            reason += f" (nor does {', '.join(others)} answer)"
        return ConnectError(
            url,
            "connect",
            f"{reason}; start the schema registry ('tallymark up' or "
            "'tallymark registry'), or set [registry] in the settings to where it is",
        )

    def _read(self, response: httpx.Response, place: int, method: str, path: str) -> Any:
        url = self.addresses[place].url
        if response.is_success and not response.content:
            return None
        try:
            body = response.json()
        except (ValueError, RecursionError):
            body = None
        if response.is_success and body is not None:
            return body
        asked = f"{method} {path} at {url}"
        status = response.status_code
        if isinstance(body, dict) and "message" in body:
            code = body.get("error_code", status)
            code = code if isinstance(code, int) else status
            raise RegistryError(status, code, str(body["message"]), asked)
        raise RegistryError(status, status, f"no answer of a schema registry; is {url} one?", asked)


def _helps_again(method: str, status: int) -> bool:
    return status in (_NOT_DONE if method == "DELETE" else _RETRIED)


def _retry_after(response: httpx.Response) -> float:
    """Seconds that the server asks to wait; 0 where it does not say."""
    with suppress(ValueError):
        return min(_LONGEST_WAIT_S, max(0.0, float(response.headers.get("retry-after", "0"))))
    return 0.0
