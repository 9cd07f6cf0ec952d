"""The catalog: what records build, also in the order in which a start reads the store."""

from __future__ import annotations

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.content import Reference
from tallymark_schema_registry.catalog.records import (
    ContextRemoved,
    Record,
    SchemaAdded,
    SchemaRemoved,
    VersionAdded,
    VersionDeleted,
    VersionRemoved,
    VersionRestored,
    from_json,
    to_json,
)
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject

S = Subject(DEFAULT_CONTEXT, "s")


def _catalog(*records: Record) -> Catalog:
    catalog = Catalog()
    for record in records:
        catalog.apply(catalog.number + 1, record)
    return catalog


def _version(number: int, schema_id: int, deleted: bool = False) -> VersionAdded:
    return VersionAdded(".", "s", number, schema_id, 5, "u", deleted)


def test_a_content_that_was_imported_under_two_ids_keeps_one_when_the_other_goes() -> None:
    """Only the first id of a content was known by its hash. When that id was deleted, the content
    was registered under a third id, though the second one had it."""
    catalog = _catalog(SchemaAdded(".", 7, "m"), SchemaAdded(".", 3, "m"))
    assert catalog.contexts["."].by_md5 == {"m": 3}, "whatever the order: stores are read by id"
    assert set(catalog.ids_of(".", "m")) == {3, 7}
    catalog.apply(3, SchemaRemoved(".", 3))
    assert catalog.contexts["."].by_md5 == {"m": 7}
    assert list(catalog.ids_of(".", "m")) == [7]
    catalog.apply(4, SchemaRemoved(".", 7))
    assert catalog.contexts["."].by_md5 == {}
    assert list(catalog.ids_of(".", "m")) == []
    assert catalog.contexts["."].last_id == 7


def test_a_content_under_three_ids() -> None:
    catalog = _catalog(*(SchemaAdded(".", number, "m") for number in (2, 9, 5)))
    catalog.apply(4, SchemaRemoved(".", 9))
    assert set(catalog.ids_of(".", "m")) == {2, 5}
    catalog.apply(5, SchemaRemoved(".", 2))
    assert list(catalog.ids_of(".", "m")) == [5]
    assert catalog.contexts["."].twins == {}


def test_versions_are_in_order_whatever_the_order_of_the_records() -> None:
    schema = SchemaAdded(".", 1, "m")
    catalog = _catalog(schema, _version(3, 1), _version(1, 1), _version(2, 1))
    found = catalog.subject(S)
    assert found is not None
    assert list(found.versions) == [1, 2, 3]
    assert found.last_version == 3


def test_a_removed_version_leaves_its_number_behind() -> None:
    catalog = _catalog(SchemaAdded(".", 1, "m"), _version(1, 1), VersionRemoved(".", "s", 1))
    assert catalog.subject(S) is None
    assert catalog.contexts["."].subjects["s"].last_version == 1
    assert catalog.version(S, 1) is None


def test_deleted_and_restored() -> None:
    catalog = _catalog(SchemaAdded(".", 1, "m"), _version(1, 1), VersionDeleted(".", "s", 1))
    entry = catalog.version(S, 1)
    assert entry is not None
    assert entry.deleted
    assert entry.by == "u"
    catalog.apply(4, VersionRestored(".", "s", 1))
    assert catalog.subject(S).live()[0].version == 1  # type: ignore[union-attr]


def test_a_reference_without_a_context_is_in_its_schemas_context() -> None:
    target = SchemaAdded(".c", 1, "t")
    referrer = SchemaAdded(".c", 2, "r", references=(Reference("T", "t", 1),))
    version = VersionAdded(".c", "t", 1, 1, 5)
    catalog = _catalog(target, version, referrer)
    found = [schema.schema_id for _, schema in catalog.referrers(Subject(".c", "t"), 1)]
    assert found == [2]
    assert not list(catalog.referrers(Subject(".", "t"), 1))
    catalog.apply(4, SchemaRemoved(".c", 2))
    assert not list(catalog.referrers(Subject(".c", "t"), 1))


def test_a_record_that_was_applied_before_changes_nothing() -> None:
    catalog = _catalog(SchemaAdded(".", 1, "m"), _version(1, 1))
    catalog.apply(1, SchemaAdded(".", 9, "x"))
    assert catalog.schema(".", 9) is None
    assert catalog.number == 2


def test_a_context_is_listed_from_its_first_version_until_it_is_removed() -> None:
    catalog = _catalog(SchemaAdded(".c", 1, "m"), VersionAdded(".c", "s", 1, 1, 5))
    assert catalog.contexts[".c"].listed
    catalog.apply(3, ContextRemoved(".c"))
    assert not catalog.contexts[".c"].listed


def test_records_survive_their_json() -> None:
    referrer = SchemaAdded(".c", 2, "r", "AVRO", (Reference("T", "t", 1),), "{}", '{"a":1}')
    for record in (referrer, _version(1, 2, deleted=True), ContextRemoved(".c")):
        assert from_json(to_json(record)) == record
