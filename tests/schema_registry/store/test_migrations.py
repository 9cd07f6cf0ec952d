"""A store of the first version is brought up to date; what a newer program wrote is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from first_store import (
    ADD_LEVEL,
    READ_LEVEL,
    SET_LEVEL,
    add_schema,
    add_version,
    make_first_store,
)
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import SQLAlchemyError

from tallymark.errors import UserError
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.content import Content
from tallymark_schema_registry.store.opening import open_store
from tallymark_schema_registry.store.sql_store import SqlStore

TEXTS = ['"int"', '"string"', '{"type":"enum","name":"über","symbols":["A"]}']
VERSIONS = [("s", 1, 1, False), ("s", 2, 3, False), ("t/ü", 1, 1, True), ("t/ü", 4, 2, False)]


@pytest.fixture
def migrated(database: str) -> Iterator[SqlStore]:
    make_first_store(database, TEXTS, VERSIONS, [("", "FULL"), ("s", "NONE")])
    store = open_store(database)
    yield store
    store.close()


def test_ids_versions_and_levels_are_as_they_were(migrated: SqlStore) -> None:
    context = migrated.load().context(".")
    assert {name: list(found.versions) for name, found in context.subjects.items()} == {
        "s": [1, 2],
        "t/ü": [1, 4],
    }
    assert [
        (name, *entry[:2], entry.deleted, entry.at_ms)
        for name, found in context.subjects.items()
        for entry in found.versions.values()
    ] == [
        ("s", 1, 1, False, 1_001),
        ("s", 2, 3, False, 1_002),
        ("t/ü", 1, 1, True, 1_001),
        ("t/ü", 4, 2, False, 1_004),
    ]
    assert context.configs == {
        "": {"compatibilityLevel": "FULL"},
        "s": {"compatibilityLevel": "NONE"},
    }
    assert context.last_id == 3
    assert migrated.texts(".", [1, 2, 3]) == dict(enumerate(TEXTS, 1))
    assert {entry.md5 for entry in context.schemas.values()} == {
        Content(text).md5() for text in TEXTS
    }


def test_the_changes_tell_all_of_it_too(migrated: SqlStore) -> None:
    built = Catalog()
    for change in migrated.since(0):
        built.apply(change.number, change.record)
    loaded = migrated.load()
    assert built.number == loaded.number == 3 + 4 + 2
    assert built.contexts == loaded.contexts


def test_it_is_done_once(migrated: SqlStore, database: str) -> None:
    again = open_store(database)
    assert again.load().contexts == migrated.load().contexts
    again.close()


WRITES: dict[str, Callable[[Connection], object]] = {
    "schema": lambda old: add_schema(old, 4, '"bytes"'),
    "version": lambda old: add_version(old, "s", 3, 1),
    "level": lambda old: old.execute(ADD_LEVEL, {"subject": "t", "level": "FULL"}),
    "other level": lambda old: old.execute(SET_LEVEL, {"subject": "s", "level": "FULL"}),
    "read level": lambda old: old.execute(READ_LEVEL, {"subject": "s"}),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_process_of_the_first_version_fails(
    migrated: SqlStore, database: str, write: str
) -> None:
    """What it wrote would be in no change, so no other process would ever see it."""
    before = migrated.load().contexts
    engine = create_engine(database)
    with pytest.raises(SQLAlchemyError), engine.begin() as old:
        WRITES[write](old)
    engine.dispose()
    assert migrated.load().contexts == before


def test_a_store_of_a_newer_version_is_refused(database: str) -> None:
    open_store(database).close()
    engine = create_engine(database)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE registry_store SET version = 3")
    engine.dispose()
    with pytest.raises(UserError, match="version 3") as refused:
        open_store(database)
    assert "this program knows 2" in str(refused.value)
