"""What the registry does, without HTTP: register, look up, check, configure. Thread-safe."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from sqlalchemy import Connection

from tallymark_schema_registry import faults
from tallymark_schema_registry.levels import DEFAULT, Level, differences, first_conflict
from tallymark_schema_registry.schemas import (
    InvalidSchemaError,
    Schema,
    canonical_text,
    parse_schema,
)
from tallymark_schema_registry.store import Conflict, Store, Stored

LATEST: Final = "latest"
ATTEMPTS: Final = 50
"""How often a registration starts again because another one was first."""
_SHOWN_SCHEMA: Final = 10_240


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Registry:
    """The registry over one store. What cannot be answered raises a RegistryFault."""

    def __init__(self, store: Store, now_ms: Callable[[], int] = _now_ms) -> None:
        self._store = store
        self._now_ms = now_ms

    def close(self) -> None:
        self._store.close()

    def ping(self) -> None:
        """Raises what the store raises if it cannot be asked."""
        self._store.ping()

    def register(self, subject: str, text: str) -> int:
        """The id of the schema, which is a version of ``subject`` afterwards.

        Registering the same content again changes nothing, whatever its white space. Linearizable:
        of two that register at once, one is checked against the other.
        """
        check_subject(subject)
        schema, canonical, md5 = understand(text)
        with self._store.reading() as connection:
            known = self._store.with_md5(connection, subject, md5)
        if known:
            return known.schema_id
        for _ in range(ATTEMPTS):
            try:
                return self._try_register(subject, schema, canonical, md5)
            except Conflict:
                continue
        raise faults.store_failed()

    def _try_register(self, subject: str, schema: Schema, canonical: str, md5: str) -> int:
        with self._store.writing() as connection:
            known = self._store.with_md5(connection, subject, md5)
            if known:
                return known.schema_id
            conflict = self._conflict(connection, subject, schema)
            if conflict:
                raise faults.incompatible(subject, conflict)
            schema_id = self._store.id_of(connection, md5)
            if schema_id is None:
                schema_id = self._store.add_schema(connection, md5, canonical)
            self._store.add_version(connection, subject, schema_id, self._now_ms())
            return schema_id

    def lookup(self, subject: str, text: str) -> Stored:
        """The version under which ``subject`` has this schema."""
        md5 = understand(text)[2]
        with self._store.reading() as connection:
            found = self._store.with_md5(connection, subject, md5)
            if found is None:
                self._versions(connection, subject)
                raise faults.schema_not_found()
            return found

    def text(self, schema_id: int) -> str:
        text = self._store.text(schema_id)
        if text is None:
            raise faults.schema_not_found(schema_id)
        return text

    def uses(self, schema_id: int) -> list[tuple[str, int]]:
        """Every (subject, version) that has the schema."""
        found = self._store.uses(schema_id)
        if not found:
            self.text(schema_id)
        return found

    def subjects(self, prefix: str = "") -> list[str]:
        return self._store.subjects(prefix)

    def versions(self, subject: str) -> list[int]:
        with self._store.reading() as connection:
            return self._versions(connection, subject)

    def version(self, subject: str, spec: str) -> Stored:
        """``spec`` is a number, "latest" or "-1"."""
        number = parse_version(spec)
        with self._store.reading() as connection:
            there = self._versions(connection, subject)
            version = there[-1] if number == LATEST else number
            assert isinstance(version, int)
            found = self._store.version(connection, subject, version)
            if found is None:
                raise faults.version_not_found(version)
            return found

    def check(self, subject: str, spec: str | None, text: str) -> list[str]:
        """Why the schema could not be registered; empty: it could.

        ``spec`` None checks against all versions that the subject's level names. A subject that is
        not there is compatible with everything, a version that is not there is a fault.
        """
        schema = understand(text)[0]
        number = None if spec is None else parse_version(spec)
        with self._store.reading() as connection:
            there = self._store.versions(connection, subject)
            if number is None:
                return self._conflict(connection, subject, schema) or []
            version = there[-1] if number == LATEST and there else number
            if version == LATEST:
                return []
            if version not in there:
                raise faults.version_not_found(version)
            assert isinstance(version, int)
            level = self._effective(connection, subject)
            if level is Level.NONE:
                return []
            return differences(level, schema, self._load(connection, subject, version))

    def level(self, subject: str = "", fall_back: bool = False) -> Level:
        """The level set for a subject; with ``fall_back`` the one in force for it."""
        with self._store.reading() as connection:
            if not subject or fall_back:
                return self._effective(connection, subject)
            found = self._store.level(connection, subject)
            if found is None:
                raise faults.no_subject_level(subject)
            return Level(found)

    def set_level(self, subject: str, level: Level) -> None:
        if subject:
            check_subject(subject)
        for _ in range(ATTEMPTS):
            try:
                with self._store.writing() as connection:
                    return self._store.set_level(connection, subject, level)
            except Conflict:
                continue
        raise faults.store_failed()

    def delete_level(self, subject: str = "") -> Level:
        """Fall back to the global level, or that to BACKWARD. Answers what was set."""
        with self._store.writing() as connection:
            found = self._store.level(connection, subject)
            if found is None and subject:
                raise faults.subject_not_found(subject)
            self._store.delete_level(connection, subject)
            return Level(found) if found else DEFAULT

    def _versions(self, connection: Connection, subject: str) -> list[int]:
        found = self._store.versions(connection, subject)
        if not found:
            raise faults.subject_not_found(subject)
        return found

    def _effective(self, connection: Connection, subject: str) -> Level:
        own = self._store.level(connection, subject)
        return Level(own or self._store.level(connection, "") or DEFAULT)

    def _conflict(self, connection: Connection, subject: str, schema: Schema) -> list[str] | None:
        level = self._effective(connection, subject)
        newest_first = self._store.versions(connection, subject)[::-1]
        conflict = first_conflict(
            level, schema, newest_first, lambda version: self._load(connection, subject, version)
        )
        if conflict is None:
            return None
        version, found = conflict
        old = self._store.version(connection, subject, version)
        shown = "" if old is None else old.text[:_SHOWN_SCHEMA]
        return [
            *found,
            f"{{oldSchemaVersion: {version}}}",
            f"{{oldSchema: '{shown}'}}",
            f"{{validateFields: 'false', compatibility: '{level}'}}",
        ]

    def _load(self, connection: Connection, subject: str, version: int) -> Schema:
        stored = self._store.version(connection, subject, version)
        assert stored is not None, (subject, version)
        return understand(stored.text)[0]


def understand(text: str) -> tuple[Schema, str, str]:
    """The schema, its canonical text and the MD5 of that. Raises the 42201 fault."""
    return _remembered(text) if len(text) <= _REMEMBERED_SIZE else _understand(text)


def _understand(text: str) -> tuple[Schema, str, str]:
    if not text.strip():
        raise faults.invalid_schema("it is empty")
    try:
        schema = parse_schema(text)
    except InvalidSchemaError as error:
        raise faults.invalid_schema(str(error)) from error
    canonical = canonical_text(schema)
    return schema, canonical, hashlib.md5(canonical.encode(), usedforsecurity=False).hexdigest()


# Clients register the same few schemas at every start. Large texts are left out, so that the memory
# this takes is bounded.
_REMEMBERED_SIZE: Final = 65_536
_remembered = lru_cache(maxsize=1024)(_understand)


def parse_version(text: str) -> int | str:
    """A positive int of 31 bits, or LATEST for "latest" (any case) and "-1"."""
    if text.lower() == LATEST or text == "-1":
        return LATEST
    if text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) < 2**31:
        return int(text)
    raise faults.invalid_version(text)


def check_subject(subject: str) -> None:
    """Names starting with ":" mean another context elsewhere; they stay free for that."""
    if not subject or not subject.isprintable() or subject.startswith(":") or len(subject) > 1000:
        raise faults.invalid_subject(subject)
