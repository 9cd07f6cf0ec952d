"""What the registry does, without HTTP: register, look up, check, configure. Thread-safe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Connection

from tallymark.clock import now_ms
from tallymark_schema_registry import errors
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.levels import (
    DEFAULT,
    Level,
    against,
    differences,
    first_conflict,
)
from tallymark_schema_registry.schemas import Budget, Schema
from tallymark_schema_registry.store import Conflict, Store, Stored
from tallymark_schema_registry.understanding import Understood, understand

LATEST: Final = "latest"
ATTEMPTS: Final = 50
"""How often a registration starts again because another one was first."""
_SHOWN_SCHEMA: Final = 10_240
_SHOWN_REASONS: Final = 32_768


class Registry:
    """The registry over one store. Requests that cannot be served raise a RegistryError."""

    def __init__(self, store: Store, now_ms: Callable[[], int] = now_ms) -> None:
        self._store = store
        self._now_ms = now_ms

    def close(self) -> None:
        self._store.close()

    def ping(self) -> None:
        """Raises what the store raises if it cannot be asked."""
        self._store.ping()

    def register(self, subject: str, text: str, budget: Budget | None = None) -> int:
        """The id of the schema, which is a version of ``subject`` afterwards.

        Registering the same content again changes nothing, whatever its white space. Linearizable:
        of two that register at once, one is checked against the other. No request waits
        for a comparison: it is made before the write transaction, which only checks that the
        compared versions are still the current ones.

        Raises TooLargeError, with nothing changed, if it costs more than ``budget``.
        """
        check_subject(subject)
        budget = budget or Budget()
        new = understand(text, budget)
        for _ in range(ATTEMPTS):
            with self._store.reading() as connection:
                known = self._store.with_md5(connection, subject, new.md5)
                if known:
                    return known.schema_id
                level, versions = self._asked(connection, subject)
            conflict = self._conflict(budget, subject, new.schema, level, versions)
            if conflict:
                raise errors.incompatible(subject, conflict)
            try:
                schema_id = self._insert(subject, new, (level, versions))
            except Conflict:
                continue
            if schema_id is not None:
                return schema_id
        raise errors.store_failed()

    def _insert(
        self, subject: str, new: Understood, checked: tuple[Level, Sequence[int]]
    ) -> int | None:
        """The id; or None where ``checked`` is no longer what has to be compared."""
        with self._store.writing() as connection:
            known = self._store.with_md5(connection, subject, new.md5)
            if known:
                return known.schema_id
            if self._asked(connection, subject) != checked:
                return None
            schema_id = self._store.id_of(connection, new.md5)
            if schema_id is None:
                schema_id = self._store.add_schema(connection, new.md5, new.text)
            self._store.add_version(connection, subject, schema_id, self._now_ms())
            return schema_id

    def lookup(self, subject: str, text: str, budget: Budget | None = None) -> Stored:
        """The version under which ``subject`` has this schema."""
        md5 = understand(text, budget).md5
        with self._store.reading() as connection:
            found = self._store.with_md5(connection, subject, md5)
            if found is None:
                self._versions(connection, subject)
                raise errors.schema_not_found()
            return found

    def text(self, schema_id: int) -> str:
        text = self._store.text(schema_id)
        if text is None:
            raise errors.schema_not_found(schema_id)
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
                raise errors.version_not_found(version)
            return found

    def check(
        self, subject: str, spec: str | None, text: str, budget: Budget | None = None
    ) -> list[str]:
        """Why the schema could not be registered; empty: it could.

        ``spec`` None checks against all versions that the subject's level names. A subject that is
        not there is compatible with everything, a version that is not there is an error.
        """
        budget = budget or Budget()
        schema = understand(text, budget).schema
        number = None if spec is None else parse_version(spec)
        with self._store.reading() as connection:
            there = self._store.versions(connection, subject)
            level, versions = self._asked(connection, subject)
        if number is None:
            return self._conflict(budget, subject, schema, level, versions) or []
        version = there[-1] if number == LATEST and there else number
        if version == LATEST:
            return []
        if version not in there:
            raise errors.version_not_found(version)
        assert isinstance(version, int)
        if level is Level.NONE:
            return []
        return differences(level, schema, self._load(budget, subject, version), budget)

    def level(self, subject: str = "", fall_back: bool = False) -> Level:
        """The level set for a subject; with ``fall_back`` the one in force for it."""
        with self._store.reading() as connection:
            if not subject or fall_back:
                return self._effective(connection, subject)
            found = self._store.level(connection, subject)
            if found is None:
                raise errors.no_subject_level(subject)
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
        raise errors.store_failed()

    def delete_level(self, subject: str = "") -> Level:
        """Fall back to the global level, or that to BACKWARD. Answers what was set."""
        with self._store.writing() as connection:
            found = self._store.level(connection, subject)
            if found is None and subject:
                raise errors.subject_not_found(subject)
            self._store.delete_level(connection, subject)
            return Level(found) if found else DEFAULT

    def _versions(self, connection: Connection, subject: str) -> list[int]:
        found = self._store.versions(connection, subject)
        if not found:
            raise errors.subject_not_found(subject)
        return found

    def _effective(self, connection: Connection, subject: str) -> Level:
        own = self._store.level(connection, subject)
        return Level(own or self._store.level(connection, "") or DEFAULT)

    def _asked(self, connection: Connection, subject: str) -> tuple[Level, Sequence[int]]:
        """The level in force, and the versions that it asks to compare with, the newest first."""
        level = self._effective(connection, subject)
        return level, against(level, self._store.versions(connection, subject)[::-1])

    def _conflict(
        self, budget: Budget, subject: str, schema: Schema, level: Level, versions: Sequence[int]
    ) -> list[str] | None:
        conflict = first_conflict(
            level, schema, versions, lambda number: self._load(budget, subject, number), budget
        )
        if conflict is None:
            return None
        version, found = conflict
        return [
            *_first(found),
            f"{{oldSchemaVersion: {version}}}",
            f"{{oldSchema: '{self._stored(subject, version).text[:_SHOWN_SCHEMA]}'}}",
            f"{{validateFields: 'false', compatibility: '{level}'}}",
        ]

    def _stored(self, subject: str, version: int) -> Stored:
        # A version never changes, so each is read by itself: no connection is held meanwhile.
        with self._store.reading() as connection:
            stored = self._store.version(connection, subject, version)
        assert stored is not None, (subject, version)
        return stored

    def _load(self, budget: Budget, subject: str, version: int) -> Schema:
        try:
            return understand(self._stored(subject, version).text, budget).schema
        except RegistryError as error:
            raise errors.invalid_schema(
                f"version {version} of the subject cannot be compared with: {error.message}"
            ) from error


def _first(reasons: list[str]) -> list[str]:
    """The first reasons, as many as an answer may have."""
    kept, size = list[str](), 0
    for reason in reasons:
        size += len(reason)
        if kept and size > _SHOWN_REASONS:
            return [*kept, "{and more}"]
        kept.append(reason[:_SHOWN_REASONS])
    return kept


def parse_version(text: str) -> int | str:
    """A positive int of 31 bits, or LATEST for "latest" (any case) and "-1"."""
    if text.lower() == LATEST or text == "-1":
        return LATEST
    if text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) < 2**31:
        return int(text)
    raise errors.invalid_version(text)


def check_subject(subject: str) -> None:
    """Names starting with ":" mean another context elsewhere; they stay free for that."""
    if not subject or not subject.isprintable() or subject.startswith(":") or len(subject) > 1000:
        raise errors.invalid_subject(subject)
