"""One HTTP request to the registry, sent again with back-off as long as that can help."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallymark.errors import ConnectError, TimedOutError
from tallymark.net.tls.contexts import client_context
from tallymark.serialization.errors import RegistryError

if TYPE_CHECKING:
    import httpx

ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_RETRIED: Final = frozenset((408, 429, 500, 502, 503, 504))


class Http:
    """``request`` is thread-safe. ``sleep`` and the back-off are parameters for tests only."""

    def __init__(
        self,
        url: str,
        timeout_s: float,
        attempts: int,
        back_off_s: float = 0.1,
        sleep: Callable[[float], None] = time.sleep,
        *,
        truststore: Path | None = None,
        login: tuple[str, str] | None = None,
    ) -> None:
        import httpx  # 0.1 s to import, and codecs without a registry are used in every producer

        self._httpx = httpx
        self._attempts = attempts
        self._back_off_s = back_off_s
        self._sleep = sleep
        self._timeout_s = timeout_s
        parsed = httpx.URL(url)
        self._url = str(parsed.copy_with(username=None, password=None))
        self._client = httpx.Client(
            base_url=url,
            timeout=timeout_s,
            headers={"accept": ACCEPT, "user-agent": "tallymark"},
            # Plain HTTP needs no certificates, and loading them takes longer than the request.
            verify=client_context(truststore) if parsed.scheme == "https" else False,
            auth=login,
            # A proxy of the environment is of no use for this machine itself.
            trust_env=parsed.host not in ("127.0.0.1", "localhost", "::1"),
        )

    def close(self) -> None:
        self._client.close()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a 200. Every request of ours may be repeated: registering is idempotent.

        Raises RegistryError for any other answer, ConnectError when no server listens,
        TimedOutError when no answer came in time.
        """
        for attempt in range(1, self._attempts + 1):
            last = attempt == self._attempts
            try:
                response = self._client.request(method, path, json=body)
            except self._httpx.TransportError as error:
                if last:
                    raise self._explain(error, method, path) from error
            else:
                if last or response.status_code not in _RETRIED:
                    return self._read(response)
            self._sleep(self._back_off_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _explain(self, error: httpx.TransportError, method: str, path: str) -> Exception:
        if isinstance(error, self._httpx.TimeoutException) and not isinstance(
            error, self._httpx.ConnectTimeout
        ):
            return TimedOutError(
                f"the schema registry at {self._url} did not answer {method} {path} within "
                f"{self._timeout_s:g} s"
            )
        return ConnectError(
            self._url,
            "connect",
            f"{error or type(error).__name__}; start the schema registry ('tallymark up' or "
            "'tallymark registry'), or set [registry] in the settings to where it is",
        )

    def _read(self, response: httpx.Response) -> Any:
        try:
            body = response.json()
        except ValueError:
            body = None
        if response.is_success and body is not None:
            return body
        if isinstance(body, dict) and "message" in body:
            code = body.get("error_code", response.status_code)
            raise RegistryError(response.status_code, int(code), str(body["message"]))
        raise RegistryError(
            response.status_code,
            response.status_code,
            f"no answer of a schema registry; is {self._url} one?",
        )
