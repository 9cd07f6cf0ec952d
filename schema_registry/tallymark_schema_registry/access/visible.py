"""The part of a catalog that a principal may read, as a catalog. Pure.

What is hidden is not in it, so whatever is decided on it is decided, and answered, exactly as if
that were not there::

    subjects      that may be read, with their configs and modes
    schemas       that some subject has that may be read; used by these only
    contexts      of which something may be read; their own config and mode with them

References of a schema are part of what identifies it and stay; those to hidden versions do not
resolve. Nothing is copied: each look at it looks at the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast

from tallymark_schema_registry.access.grants import Principal, Right
from tallymark_schema_registry.catalog.catalog import (
    Catalog,
    ContextCatalog,
    SchemaEntry,
)
from tallymark_schema_registry.catalog.records import Record
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject
from tallymark_schema_registry.decisions.references import closure
from tallymark_schema_registry.errors import RegistryError

Key = TypeVar("Key")
Value = TypeVar("Value")


class VisibleCatalog(Catalog):
    """What ``principal`` may read of ``whole``."""

    def __init__(self, whole: Catalog, principal: Principal) -> None:
        self._whole = whole
        self._principal = principal
        self.number = whole.number
        self.contexts = _dict(_Seen(whole.contexts, self._context))

    def apply(self, number: int, record: Record) -> None:
        """It is read only."""
        raise AssertionError("changes go to the whole catalog")

    def ids_of(self, context: str, md5: str) -> Collection[int]:
        """Every id that a context has for a content."""
        found = self._whole.ids_of(context, md5)
        return [each for each in found if self.schema(context, each)]

    def highest_id(self, context: str) -> int:
        """The highest id; 0 where there is none."""
        return max(self.context(context).schemas, default=0)

    def lists(self, context: str) -> bool:
        """Whether something in the context may be read, or could be whatever its name."""
        if context == DEFAULT_CONTEXT or self._principal.grants.all_of(Right.READ, context):
            return True
        return any(self.context(context).subjects)

    def shows(self, change: Mapping[str, Any]) -> bool:
        """Whether a change may be shown: of a subject that may be read, or of a schema. The
        subjects of one that is gone are unknown."""
        context = str(change["context"])
        if "subject" in change:
            return self._principal.may(Right.READ, Subject(context, str(change["subject"])))
        if self._principal.grants.all_of(Right.READ, context):
            return True
        return "schema_id" in change and self.schema(context, int(change["schema_id"])) is not None

    def has_all_of(self, subject: Subject) -> bool:
        """Whether all that the versions of a subject refer to may be read. A comparison with them
        quotes it."""
        found = self.subject(subject)
        ids = {entry.schema_id for entry in found.versions.values()} if found else set[int]()
        return all(self.resolves(subject.context, each) for each in ids)

    def resolves(self, context: str, schema_id: int) -> bool:
        """Whether all that a schema refers to may be read."""
        schema = self.schema(context, schema_id)
        try:
            return schema is not None and bool(
                closure(self, context, schema.references) or not schema.references
            )
        except RegistryError:
            return False

    def _context(self, name: str, whole: ContextCatalog) -> ContextCatalog | None:
        if not self._principal.grants.reach(name):
            return None

        def may_read(subject: str) -> bool:
            return self._principal.may(Right.READ, Subject(name, subject))

        def place(subject: str, value: Value) -> Value | None:
            return value if may_read(subject) else None

        def schema(_id: int, entry: SchemaEntry) -> SchemaEntry | None:
            uses = {use for use in entry.used_by if may_read(use[0])}
            return replace(entry, used_by=uses) if uses else None

        def ids(_place: tuple[str, int], referring: set[int]) -> set[int] | None:
            return {each for each in referring if schema(each, whole.schemas[each])} or None

        return ContextCatalog(
            schemas=_dict(_Seen(whole.schemas, schema)),
            by_md5=whole.by_md5,
            twins=whole.twins,
            subjects=_dict(_Seen(whole.subjects, place)),
            configs=_dict(_Seen(whole.configs, place)),
            modes=_dict(_Seen(whole.modes, place)),
            referred=_dict(_Seen(whole.referred, ids)),
            listed=whole.listed,
        )


class _Seen(Mapping[Key, Value], Generic[Key, Value]):
    """What ``see`` leaves of a dictionary: None hides a key."""

    def __init__(
        self, whole: Mapping[Key, Value], see: Callable[[Key, Value], Value | None]
    ) -> None:
        self._whole = whole
        self._see = see

    def __getitem__(self, key: Key) -> Value:
        found = self._see(key, self._whole[key])
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[Key]:
        return (key for key, _ in self.seen())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def items(self) -> ItemsView[Key, Value]:
        """Each once; the inherited one would look at each key twice."""
        return _Items(self)

    def seen(self) -> Iterator[tuple[Key, Value]]:
        """The keys and values that are left."""
        for key, value in self._whole.items():
            found = self._see(key, value)
            if found is not None:
                yield key, found


class _Items(ItemsView[Key, Value]):
    def __init__(self, mapping: _Seen[Key, Value]) -> None:
        super().__init__(mapping)
        self._all = mapping

    def __iter__(self) -> Iterator[tuple[Key, Value]]:
        return self._all.seen()


def _dict(seen: _Seen[Key, Value]) -> dict[Key, Value]:
    """Decisions only read, so a mapping serves where a catalog has a dictionary."""
    return cast("dict[Key, Value]", seen)
