"""A registry in memory, asked as :class:`tallymark.serialization.http_retry.Http` is: what imports
and exports use of the REST interface. The same tests run against it and against the real one."""

from __future__ import annotations

import io
import threading
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from registry_snapshots import text_of

from tallymark.serialization import RegistryError
from tallymark_schema_registry.catalog.content import Content
from tallymark_schema_registry.catalog.subject import parse_subject
from tallymark_schema_registry.transfer.importing import Done, ImportRun
from tallymark_schema_registry.transfer.lines import SCHEMA, Key
from tallymark_schema_registry.transfer.plan import context_place, plan
from tallymark_schema_registry.transfer.reading import read_registry
from tallymark_schema_registry.transfer.remote import RemoteRegistry, Requests
from tallymark_schema_registry.transfer.schema_file import write_snapshot
from tallymark_schema_registry.transfer.snapshot import (
    Snapshot,
    Version,
    content_document,
    version_of,
)


class MemoryRegistry:
    """``bulk``: it serves ``GET /schemas``; ``contexts``: it knows them, and marks what is deleted;
    ``changes``: it serves ``GET /changes``. ``page``: what it gives at most in an answer."""

    def __init__(
        self, *, bulk: bool = True, contexts: bool = True, changes: bool = False, page: int = 1000
    ) -> None:
        self.held = Snapshot(configs={"": {"compatibilityLevel": "BACKWARD"}})
        self.held.modes[""] = "READWRITE"
        self.requests = 0
        self.asked: list[str] = []
        self._bulk, self._contexts, self._changes, self._page = bulk, contexts, changes, page
        self._lock = threading.Lock()

    def close(self) -> None:
        """Nothing is open."""

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """One request, alone."""
        with self._lock:
            self.requests += 1
            self.asked.append(f"{method} {path}")
            parts = urlsplit(path)
            words = [unquote(word) for word in parts.path.split("/")[1:]]
            query = dict(parse_qsl(parts.query))
            return self._answer(method, words, query, body)

    def _answer(self, method: str, words: list[str], query: dict[str, str], body: Any) -> Any:
        match method, words:
            case "GET", ["schemas"] if self._bulk:
                return self._schemas(query)
            case "GET", ["changes"] if self._changes:
                return self._changes_after(int(query["since"]))
            case "GET", ["contexts"] if self._contexts:
                return sorted({".", *(one.context for one in self.held.versions.values())})
            case "GET", ["subjects"]:
                return self._subjects(query)
            case "GET", ["subjects", subject, "versions"]:
                return self._numbers(subject, query)
            case "GET", ["subjects", subject, "versions", number]:
                found = self.held.versions.get((subject, int(number)))
                if found is None or (found.deleted and not _said(query, "deleted")):
                    raise RegistryError(404, 40402, f"Version {number} not found.")
                return self._document(found)
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, body)
            case "DELETE", ["subjects", subject, "versions", number]:
                return self._delete(subject, int(number))
            case _, ["config" | "mode" as what, *place]:
                return self._setting(method, what, place[0] if place else "", body)
        raise RegistryError(404, 404, "HTTP 404 Not Found")

    def _changes_after(self, since: int) -> list[dict[str, Any]]:
        what = [("config-set", place) for place in self.held.configs]
        what += [("mode-set", place) for place in self.held.modes]
        what += [("version-added", subject) for subject, _ in self.held.versions]
        every = [
            {"number": number, "record": record, **parse_subject(place)._asdict()}
            for number, (record, place) in enumerate(what, 1)
        ]
        return [{"subject": one.pop("name"), **one} for one in every[since : since + self._page]]

    def _document(self, version: Version) -> dict[str, Any]:
        document: dict[str, Any] = {"subject": version.subject, "version": version.version}
        document |= {"id": version.schema_id} | content_document(version.content)
        if self._contexts:
            document["deleted"] = version.deleted
        return document

    def _schemas(self, query: dict[str, str]) -> list[Any]:
        offset, limit = int(query["offset"]), min(int(query["limit"]), self._page)
        every = [
            version
            for _, version in sorted(self.held.versions.items())
            if _said(query, "deleted") or not version.deleted
        ]
        return [self._document(one) for one in every[offset : offset + limit]]

    def _subjects(self, query: dict[str, str]) -> list[str]:
        prefix = query.get("subjectPrefix", "")
        every = _said(query, "deleted")
        names = {one.subject for one in self.held.versions.values() if every or not one.deleted}
        if prefix == ":*:" and self._contexts:
            return sorted(names)
        default = {name for name in names if not name.startswith(":")}
        return sorted(name for name in default if name.startswith(prefix))

    def _numbers(self, subject: str, query: dict[str, str]) -> list[int]:
        found = [
            version.version
            for (name, _), version in sorted(self.held.versions.items())
            if name == subject and (_said(query, "deleted") or not version.deleted)
        ]
        if not found:
            raise RegistryError(404, 40401, f"Subject '{subject}' not found.")
        return found

    def _mode(self, subject: str) -> str:
        places = (subject, context_place(parse_subject(subject).context), ":.__GLOBAL:")
        return next((m for p in places if (m := self.held.modes.get(p))), "READWRITE")

    def _register(self, subject: str, body: Any) -> Any:
        if self._mode(subject) != "IMPORT":
            raise RegistryError(422, 42205, f"Subject {subject} is not in import mode")
        sent = version_of(Key(SCHEMA, subject, body["version"]), body)
        for other in self.held.versions.values():
            if (other.context, other.schema_id) != (sent.context, sent.schema_id):
                continue
            if other.content != sent.content:
                message = f"Overwrite new schema with id {sent.schema_id} is not permitted."
                raise RegistryError(422, 42205, message)
            # What is there already, live, is answered: no second version with the same schema.
            if other.subject == subject and not other.deleted:
                return {"id": other.schema_id}
        there = self.held.versions.get(sent.place)
        if there is not None and there.schema_id != sent.schema_id:
            raise RegistryError(422, 42205, f"Version {sent.version} is there with another id")
        for place in sent.references():
            if place not in self.held.versions or self.held.versions[place].deleted:
                raise RegistryError(422, 42201, f"Invalid schema: no reference {place}")
        self.held.add(sent)
        return {"id": sent.schema_id}

    def _delete(self, subject: str, number: int) -> int:
        found = self.held.versions.get((subject, number))
        if found is None:
            raise RegistryError(404, 40402, f"Version {number} not found.")
        if self._mode(subject) in ("READONLY", "READONLY_OVERRIDE"):
            raise RegistryError(422, 42205, f"Subject {subject} is in read-only mode")
        if found.deleted:
            raise RegistryError(
                404, 40406, f"Subject '{subject}' Version {number} was soft deleted"
            )
        live = (one for one in self.held.versions.values() if not one.deleted)
        if any(found.place in one.references() for one in live):
            raise RegistryError(422, 42206, "One or more references exist to the schema")
        self.held.add(Version(*found.place, found.schema_id, found.content, deleted=True))
        return number

    def _setting(self, method: str, what: str, place: str, body: Any) -> Any:
        held: dict[str, Any] = self.held.configs if what == "config" else self.held.modes
        if method == "PUT":
            if what == "config" and self._mode(place) == "READONLY":
                raise RegistryError(422, 42205, "read-only")
            value = body["mode"] if what == "mode" else dict(body)
            if what == "config" and "compatibility" in value:
                value["compatibilityLevel"] = value.pop("compatibility")
            held[place] = value
            return body
        if place not in held:
            raise RegistryError(404, 40408 if what == "config" else 40409, "not configured")
        found = held.pop(place) if method == "DELETE" else held[place]
        return {"mode": found} if what == "mode" else found


def _said(query: dict[str, str], name: str) -> bool:
    return query.get(name, "").lower() == "true"


def exported(snapshot: Snapshot) -> bytes:
    """The bytes of its export."""
    out = io.BytesIO()
    write_snapshot(snapshot, out)
    return out.getvalue()


def import_once(source: Snapshot, server: Any, stop: threading.Event | None = None) -> Done:
    """One import run, without conflicts."""
    registry = RemoteRegistry(server)
    target = read_registry(registry)
    made = plan(source, target)
    assert not made.conflicts, made.conflicts
    return ImportRun(registry, made, target, stop or threading.Event(), lambda done: None).run()


def version(place: str, schema_id: int, text: str = "", **more: Any) -> Version:
    """One version; ``place`` as ``subject/number``."""
    subject, _, number = place.rpartition("/")
    deleted = more.pop("deleted", False)
    content = Content(text or text_of(schema_id), **more)
    return Version(subject, int(number), schema_id, content, deleted)


class Killed(BaseException):
    """Nothing is done after it."""


class Dying:
    """The import's process is killed before it sends the change number ``at``."""

    def __init__(self, inner: Requests, at: int) -> None:
        self._inner, self._left = inner, at

    def request(self, method: str, path: str, body: Any = None) -> Any:
        if method != "GET":
            self._left -= 1
            if self._left < 0:
                raise Killed
        return self._inner.request(method, path, body)

    def close(self) -> None:
        """Nothing is open."""
