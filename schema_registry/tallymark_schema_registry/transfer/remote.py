"""One registry over REST: the requests that a transfer makes. Thread-safe.

Any registry of the ecosystem will do; what one does not have is answered as what is not set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol
from urllib.parse import quote

from tallymark.closing import ClosedByWith
from tallymark.serialization import RegistryError
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.transfer.lines import SCHEMA, Json, Key, UnreadableError, is_number
from tallymark_schema_registry.transfer.snapshot import (
    Place,
    Version,
    config_of,
    content_document,
    mode_of,
    version_of,
)

PAGE: Final = 1000
"""Versions asked for at once: as many as other registries give at most."""
_NOT_THERE: Final = frozenset((404, 405, 501))
"""Not set, or not served."""
_DELETED_ALREADY: Final = frozenset((40404, 40406))
_CONFIGURING: Final = ("config-set", "mode-set")
_ALL_CONTEXTS: Final = "subjectPrefix=%3A%2A%3A"


class Requests(Protocol):
    """``tallymark.serialization.http_retry.Http``."""

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the answer. Raises RegistryError of :mod:`tallymark.serialization`,
        ConnectError, TimedOutError."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class RemoteRegistry(ClosedByWith):
    """Raises what ``requests`` raise, and UnreadableError where an answer is none of a registry.

    Subjects are qualified (``:.context:name``).
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def close(self) -> None:
        """Close the connections."""
        self._requests.close()

    def get(self, path: str) -> Any:
        """The answer to a GET; None where there is no such thing."""
        try:
            return self._requests.request("GET", path)
        except RegistryError as error:
            if error.status in _NOT_THERE:
                return None
            raise

    def subjects(self) -> list[str]:
        """All subjects of all contexts, softly deleted ones included. A registry without contexts
        takes ``subjectPrefix`` for the beginning of a name, so it is asked in both ways."""
        found: set[str] = set()
        for query in ("deleted=true", f"deleted=true&{_ALL_CONTEXTS}"):
            answer = self.get(f"/subjects?{query}")
            if answer is None and not found:
                answer = self._requests.request("GET", "/subjects")
            found.update(str(name) for name in _list(answer or []))
        return sorted(found)

    def contexts(self) -> list[str]:
        """The contexts beside the default one."""
        return [str(name) for name in _list(self.get("/contexts") or []) if name != "."]

    def configured(self) -> list[str] | None:
        """Every subject and context that was ever configured or given a mode, with versions or
        without; None where the registry has no list of changes, as only ours has."""
        found: set[str] = set()
        since = 0
        while changes := self.get(f"/changes?since={since}&limit={PAGE}"):
            for change in changes if isinstance(changes, list) else [None]:
                if not isinstance(change, dict) or not is_number(change.get("number")):
                    return None
                since = max(since, change["number"])
                if change.get("record") in _CONFIGURING:
                    context, name = str(change.get("context")), str(change.get("subject"))
                    found.add(Subject(context, name).qualified)
        return None if changes is None and not since else sorted(found)

    def pages(self, *, deleted: bool) -> Iterator[list[Version]]:
        """All versions, many with each request; nothing where the registry has no such request.
        ``deleted``: softly deleted ones, too."""
        seen: set[Place] = set()
        asked = f"/schemas?deleted={str(deleted).lower()}&latestOnly=false&{_ALL_CONTEXTS}"
        offset = 0
        # A short page is not the last one: a registry may give less than it was asked for.
        while page := _list(self.get(f"{asked}&offset={offset}&limit={PAGE}") or []):
            offset += len(page)
            new = [one for one in map(_version, page) if one.place not in seen]
            if not new:
                return  # it gives all of them whatever the offset is
            seen.update(one.place for one in new)
            yield new

    def versions(self, subject: str, *, deleted: bool) -> list[int]:
        """The numbers of a subject's versions."""
        query = "?deleted=true" if deleted else ""
        answer = self.get(f"/subjects/{segment(subject)}/versions{query}")
        return [number for number in _list(answer or []) if is_number(number)]

    def version(self, subject: str, number: int) -> Version | None:
        """One version, softly deleted or not."""
        path = f"/subjects/{segment(subject)}/versions/{number}"
        answer = self.get(f"{path}?deleted=true")
        return None if answer is None else _version(answer)

    def config(self, place: str) -> dict[str, Any]:
        """What is configured for a subject or context itself; empty where nothing is."""
        answer = self.get(_at("/config", place))
        return config_of(answer) if isinstance(answer, dict) else {}

    def mode(self, place: str) -> str | None:
        """The mode of a subject or context itself."""
        answer = self.get(_at("/mode", place))
        return mode_of(answer) if isinstance(answer, dict) else None

    def set_config(self, place: str, config: Json) -> None:
        """Set what answers call ``compatibilityLevel`` and requests ``compatibility``."""
        body = dict(config)
        if "compatibilityLevel" in body:
            body["compatibility"] = body.pop("compatibilityLevel")
        self._requests.request("PUT", _at("/config", place), body)

    def set_mode(self, place: str, mode: str | None) -> None:
        """Set the mode, also where there are schemas; None: it has none of its own."""
        path = _at("/mode", place)
        if mode is None:
            self._requests.request("DELETE", path)
        else:
            self._requests.request("PUT", f"{path}?force=true", {"mode": mode})

    def register(self, version: Version) -> int:
        """Register with this id and number, which takes the mode IMPORT; the id that it got."""
        body = content_document(version.content)
        body |= {"id": version.schema_id, "version": version.version}
        path = f"/subjects/{segment(version.subject)}/versions"
        answer = self._requests.request("POST", path, body)
        if not isinstance(answer, dict) or not is_number(found := answer.get("id"), 0):
            raise UnreadableError("the answer to a registration has no id")
        return found

    def delete(self, place: Place) -> None:
        """Delete a version softly."""
        path = f"/subjects/{segment(place[0])}/versions/{place[1]}"
        try:
            self._requests.request("DELETE", path)
        except RegistryError as error:
            if error.code not in _DELETED_ALREADY:
                raise


def segment(subject: str) -> str:
    """A subject as one segment of a path, whatever it contains."""
    return quote(subject, safe="")


def _at(path: str, place: str) -> str:
    return f"{path}/{segment(place)}" if place else path


def _list(answer: Any) -> list[Any]:
    if not isinstance(answer, list):
        raise UnreadableError("the answer is no list; is this a schema registry?")
    return answer


def _version(document: Any) -> Version:
    if not isinstance(document, dict) or not is_number(document.get("version")):
        raise UnreadableError("the answer is no version of a schema; is this a schema registry?")
    return version_of(Key(SCHEMA, str(document.get("subject")), document["version"]), document)
