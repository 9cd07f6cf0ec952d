"""What every store of the registry does: SQLite, PostgreSQL, and the one in memory that simulations
use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_store import MemoryStore

from tallymark_schema_registry.catalog.catalog import Catalog, ContextCatalog
from tallymark_schema_registry.catalog.content import Content, Reference
from tallymark_schema_registry.catalog.records import (
    ConfigSet,
    ContextRemoved,
    ModeSet,
    Record,
    SchemaAdded,
    SchemaRemoved,
    VersionAdded,
    VersionDeleted,
    VersionRemoved,
    VersionRestored,
)
from tallymark_schema_registry.store.changes import Behind, Change, NewText, StoreFailed
from tallymark_schema_registry.store.opening import open_store
from tallymark_schema_registry.store.sql_store import SqlStore

AnyStore = SqlStore | MemoryStore


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store; "" for the one in memory."""
    if request.param == "memory":
        return ""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'registry.db'}"
    found: str = request.getfixturevalue("postgres")
    return found


@pytest.fixture
def store(address: str) -> Iterator[AnyStore]:
    store = open_store(address) if address else MemoryStore()
    yield store
    store.close()


def numbered(after: int, *records: Record) -> list[Change]:
    return [
        Change(number, 1_700_000_000_000 + number, "ann", record)
        for number, record in enumerate(records, after + 1)
    ]


def content(text: str) -> Content:
    return Content(text, "AVRO", (Reference("a.B", ":.ctx:über", 2),), '{"x":1}', '{"y":"ß"}')


def added(text: str, schema_id: int, context: str = ".") -> tuple[SchemaAdded, NewText]:
    said = content(text)
    parts = said.references, said.metadata, said.rule_set
    record = SchemaAdded(context, schema_id, said.md5(), said.kind, *parts)
    return record, NewText(context, schema_id, text)


def test_what_was_appended_is_there(store: AnyStore) -> None:
    schema, text = added('"int"', 1)
    changes = numbered(0, schema, VersionAdded(".", "s", 1, 1, 5, "ann"))
    assert store.unchanged(0)
    store.append(0, changes, [text])
    assert not store.unchanged(0)
    assert store.unchanged(2)
    assert store.since(0) == changes
    assert store.since(1) == changes[1:]
    assert store.since(0, 1) == changes[:1]
    assert store.since(2) == []
    assert store.texts(".", [1, 7]) == {1: '"int"'}
    assert store.texts(".other", [1]) == {}


def test_many_texts_are_read_by_one_call(store: AnyStore) -> None:
    both = [added(f'"{number}"', number) for number in range(1, 1_203)]
    store.append(0, numbered(0, *(schema for schema, _ in both)), [text for _, text in both])
    found = store.texts(".", list(range(1, 1_300)))
    assert found == {number: f'"{number}"' for number in range(1, 1_203)}


def test_one_who_does_not_know_all_changes_gets_them_and_writes_nothing(store: AnyStore) -> None:
    first = numbered(0, ModeSet(".", "", "READONLY"), ModeSet(".", "s", "IMPORT"))
    store.append(0, first)
    with pytest.raises(Behind) as behind:
        store.append(1, numbered(1, ModeSet(".", "", None)))
    assert list(behind.value.turn.newer) == first[1:]
    behind.value.turn.give_up()
    assert list(store.fence(0)) == first
    assert list(store.fence(2)) == []
    assert store.since(0) == first


def test_one_who_was_behind_has_the_lock_and_writes_next(store: AnyStore) -> None:
    """Where others write all the time it found itself behind again and again."""
    first = numbered(0, ModeSet(".", "", "READONLY"))
    store.append(0, first)
    with pytest.raises(Behind) as behind:
        store.append(0, numbered(0, ModeSet(".", "t", "READONLY")))
    second = numbered(1, ModeSet(".", "t", "READONLY"))
    behind.value.turn.append(second)
    assert store.since(0) == first + second


def test_an_older_copy_is_not_written_to(store: AnyStore) -> None:
    """A backup that was put back under a running registry would give ids a second time."""
    with pytest.raises(StoreFailed, match="older copy"):
        store.append(7, numbered(7, ModeSet(".", "", "READONLY")))
    assert store.since(0) == []


RECORDS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4), st.integers(1, 4)), max_size=40)
"""(what, subject, id or version) of changes; those that make no sense are left out."""


def history(choices: list[tuple[int, int, int]]) -> tuple[list[Record], list[NewText]]:
    """Records that follow from each other, as the registry makes them."""
    catalog, records, texts = Catalog(), list[Record](), list[NewText]()

    def say(record: Record) -> None:
        records.append(record)
        catalog.apply(len(records), record)

    for what, which, number in choices:
        context = "." if which % 2 else ".c"
        name = f"s{which}"
        there = catalog.context(context)
        subject = there.subjects.get(name)
        found = subject.versions.get(number) if subject else None
        if what <= 3 and (subject is None or number > subject.last_version or what == 3):
            if found is None and not (what == 3 and subject is None):
                _register(say, texts, there, (context, name, number), what)
        elif found is not None and what == 4:
            say(VersionDeleted(context, name, number))
        elif found is not None and what == 5:
            say(VersionRestored(context, name, number))
        elif found is not None and what == 6:
            say(VersionRemoved(context, name, number))
            if not there.schemas[found.schema_id].used_by:
                say(SchemaRemoved(context, found.schema_id))
        elif what == 7:
            value = {"compatibilityLevel": "FULL", "alias": "ü"} if number > 1 else None
            say(ConfigSet(context, name if number > 2 else "", value))
        elif what == 8:
            say(ModeSet(context, name if number > 2 else "", "READONLY" if number > 1 else None))
        elif what == 9:
            say(ContextRemoved(".c"))
    return records, texts


def _register(
    say: Callable[[Record], None],
    texts: list[NewText],
    there: ContextCatalog,
    place: tuple[str, str, int],
    what: int,
) -> None:
    context, name, number = place
    text = f'"{number % 3}"'
    known = there.by_md5.get(content(text).md5())
    if known is None or what == 0:  # an import brings a known content under another id
        schema_id = there.last_id + 1
        schema, new = added(text, schema_id, context)
        texts.append(new._replace(is_twin=known is not None))
        say(schema)
        known = schema_id
    say(VersionAdded(context, name, number, known, 5 + number, "ann", number == 4))


@given(choices=RECORDS, cut=st.integers(1, 10))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
def test_a_loaded_catalog_is_the_one_that_the_changes_build(
    choices: list[tuple[int, int, int]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A content that an import brought under a second id: after the first id was removed, a node
    that had run before knew none for it, and one that started then knew the second."""
    records, texts = history(choices)
    folder = tmp_path_factory.mktemp("loaded")
    store = open_store(f"sqlite:///{folder / 'registry.db'}")
    built = Catalog()
    try:
        for start in range(0, len(records), cut):
            some = numbered(start, *records[start : start + cut])
            ids = {
                (change.record.context, change.record.schema_id)
                for change in some
                if isinstance(change.record, SchemaAdded)
            }
            store.append(start, some, [text for text in texts if text[:2] in ids])
            for change in some:
                built.apply(change.number, change.record)
        loaded = store.load()
    finally:
        store.close()
    assert loaded.number == built.number
    for name in {*loaded.contexts, *built.contexts}:
        assert loaded.context(name) == replace(built.context(name)), name


def test_a_twin_is_given_out_after_the_first_id_is_gone(tmp_path: Path) -> None:
    """An import brought one content under a second id. After the first id was removed, a node that
    had run before knew none for it and gave it a third, and one that started then knew the
    second."""
    first, text = added('"int"', 1)
    second, other = added('"int"', 2)
    changes = numbered(
        0,
        first,
        VersionAdded(".", "s", 1, 1, 5),
        second,
        VersionAdded(".", "t", 1, 2, 5),
        VersionRemoved(".", "s", 1),
        SchemaRemoved(".", 1),
    )
    store = open_store(f"sqlite:///{tmp_path / 'registry.db'}")
    try:
        store.append(0, changes[:4], [text, other._replace(is_twin=True)])
        store.append(4, changes[4:])
        loaded = store.load()
    finally:
        store.close()
    built = Catalog()
    for change in changes:
        built.apply(change.number, change.record)
    assert loaded.context(".") == built.context(".")
    assert built.context(".").by_md5 == {first.md5: 2}
