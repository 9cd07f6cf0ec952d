"""The schema registry's HTTP client, for any Confluent-compatible registry."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tallymark.closing import ClosedByWith
from tallymark.errors import UserError
from tallymark.serialization.errors import RegistryError
from tallymark.serialization.http_retry import Http

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a subject."""

    subject: str
    version: int
    schema_id: int
    text: str


class RegistryClient(ClosedByWith):
    """Thread-safe. Schemas never change, so ids and registrations are asked for once.

    ``timeout`` in seconds is that of one attempt; a request is sent up to ``attempts`` times, with
    back-off, while no server answers, or the registry reports a failure of its own. At an ``https``
    address it trusts the authorities in the PEM file ``ssl_truststore_location``, else the
    system's; with ``username`` and ``password`` it logs in (HTTP Basic).
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 10.0,
        attempts: int = 4,
        ssl_truststore_location: str = "",
        username: str = "",
        password: str = "",
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise UserError(
                f"{url!r} is not the address of a schema registry", "write http://HOST:PORT"
            )
        self.url = url.rstrip("/")
        self._http = Http(
            self.url,
            timeout,
            attempts,
            truststore=Path(ssl_truststore_location) if ssl_truststore_location else None,
            login=(username, password) if username else None,
        )
        self._texts: dict[int, str] = {}
        self._ids: dict[tuple[str, str], int] = {}
        # Many threads that need the same schema at the same moment ask once.
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def register(self, subject: str, schema: str) -> int:
        """The id of ``schema``, which is a version of ``subject`` afterwards.

        Raises RegistryError with status 409 if it is not compatible with the subject's versions.
        """
        with self._lock:
            known = self._ids.get((subject, schema))
            if known is None:
                path = f"/subjects/{_segment(subject)}/versions"
                answer = self._http.request("POST", path, {"schema": schema})
                known = self._ids[subject, schema] = int(_value(answer, "id"))
            return known

    def schema(self, schema_id: int) -> str:
        """The text of the schema. Raises RegistryError with status 404 if there is none."""
        with self._lock:
            known = self._texts.get(schema_id)
            if known is None:
                answer = self._http.request("GET", f"/schemas/ids/{schema_id}")
                known = self._texts[schema_id] = str(_value(answer, "schema"))
            return known

    def lookup(self, subject: str, schema: str) -> RegisteredSchema | None:
        """The version of ``subject`` that is this schema, None if there is none."""
        return self._version("POST", f"/subjects/{_segment(subject)}", {"schema": schema})

    def version(self, subject: str, version: int) -> RegisteredSchema | None:
        """One version of ``subject``, None if there is none."""
        return self._version("GET", f"/subjects/{_segment(subject)}/versions/{version}")

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest version of ``subject``, None if there is none."""
        return self._version("GET", f"/subjects/{_segment(subject)}/versions/latest")

    def subjects(self) -> list[str]:
        """The names of all subjects."""
        return list(self._http.request("GET", "/subjects"))

    def versions(self, subject: str) -> list[int]:
        """The numbers of a subject's versions, ascending; empty if there is no such subject."""
        try:
            return list(self._http.request("GET", f"/subjects/{_segment(subject)}/versions"))
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return []
            raise

    def conflicts(self, subject: str, schema: str) -> list[str]:
        """Why ``schema`` could not be registered; empty: it could. Changes nothing."""
        path = f"/compatibility/subjects/{_segment(subject)}/versions?verbose=true"
        answer = self._http.request("POST", path, {"schema": schema})
        if _value(answer, "is_compatible"):
            return []
        return [str(message) for message in answer.get("messages") or ["incompatible"]]

    def level(self, subject: str = "") -> str:
        """The compatibility level in force for a subject, or the global one."""
        answer = self._http.request("GET", f"{_config(subject)}?defaultToGlobal=true")
        return str(_value(answer, "compatibilityLevel"))

    def set_level(self, level: str, subject: str = "") -> None:
        """Set a subject's compatibility level, or the global one."""
        self._http.request("PUT", _config(subject), {"compatibility": level})

    def _version(self, method: str, path: str, body: Any = None) -> RegisteredSchema | None:
        try:
            answer = self._http.request(method, path, body)
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return RegisteredSchema(
            str(_value(answer, "subject")),
            int(_value(answer, "version")),
            int(_value(answer, "id")),
            str(_value(answer, "schema")),
        )


def _segment(subject: str) -> str:
    """A subject as one segment of a path, whatever it contains."""
    return quote(subject, safe="")


def _config(subject: str) -> str:
    return f"/config/{_segment(subject)}" if subject else "/config"


def _value(answer: Any, key: str) -> Any:
    if not isinstance(answer, dict) or key not in answer:
        raise RegistryError(200, 200, f"the answer has no {key!r}; is this a schema registry?")
    return answer[key]
