"""References from a schema to versions of subjects: numbered, followed, and kept from dangling.

A version that something refers to is never removed, so a reference that was once resolved always
resolves; and it can only name what was there before it, so references make no circle. An import
that would break either is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog, SchemaEntry, VersionEntry
from tallymark_schema_registry.catalog.content import Reference
from tallymark_schema_registry.catalog.subject import Subject, parse_subject

MAX_CLOSURE: Final = 1_000
"""Schemas that one schema may refer to, directly or through others."""
_LATEST: Final = -1


def numbered(
    catalog: Catalog, context: str, references: tuple[Reference, ...]
) -> tuple[Reference, ...]:
    """The references with the number of the version instead of -1 (the latest).

    Raises the 42201 error where a version is not there; a soft-deleted one is."""
    return tuple(_numbered(catalog, context, reference) for reference in references)


def _numbered(catalog: Catalog, context: str, reference: Reference) -> Reference:
    subject = parse_subject(reference.subject, context)
    version = reference.version
    if version == _LATEST:
        found = catalog.subject(subject)
        live = found.live() if found else []
        version = live[-1].version if live else _LATEST
    if catalog.version(subject, version) is None:
        raise not_there(reference)
    return reference._replace(version=version)


def not_there(reference: Reference) -> errors.RegistryError:
    """The 42201 error about a reference to a version that is not there."""
    version = "latest" if reference.version == _LATEST else reference.version
    return errors.invalid_schema(
        f'no schema reference found for subject "{reference.subject}" and version {version}'
    )


def targets(
    catalog: Catalog, context: str, references: tuple[Reference, ...]
) -> Iterator[tuple[Reference, Subject, VersionEntry]]:
    """What numbered references mean."""
    for reference in references:
        subject = parse_subject(reference.subject, context)
        entry = catalog.version(subject, reference.version)
        if entry is None:
            raise not_there(reference)
        yield reference, subject, entry


def closure(
    catalog: Catalog, context: str, references: tuple[Reference, ...]
) -> tuple[tuple[str, int], ...]:
    """(context, id) of every schema that the references reach, each after those that it refers to
    itself.

    Raises the 42201 error where one is not there, in a circle, or above :data:`MAX_CLOSURE`."""
    done: dict[tuple[str, int], None] = {}
    path: dict[tuple[str, int], None] = {}
    # A chain of references may be longer than Python's stack.
    stack = [_places(catalog, context, references)]
    while stack:
        place = next(stack[-1], None)
        if place is None:
            stack.pop()
            if path:
                done[path.popitem()[0]] = None
        elif place in path:
            raise errors.invalid_schema("its references make a circle")
        elif place not in done:
            if len(done) + len(path) >= MAX_CLOSURE:
                raise errors.invalid_schema(f"it refers to more than {MAX_CLOSURE} schemas")
            path[place] = None
            schema = catalog.schema(*place)
            assert schema is not None, place
            stack.append(_places(catalog, place[0], schema.references))
    return tuple(done)


def _places(
    catalog: Catalog, context: str, references: tuple[Reference, ...]
) -> Iterator[tuple[str, int]]:
    for _, subject, entry in targets(catalog, context, references):
        yield subject.context, entry.schema_id


def check_live(catalog: Catalog, context: str, references: tuple[Reference, ...]) -> None:
    """Raises the 42201 error where a new schema refers to a version that is soft-deleted."""
    for reference, _, entry in targets(catalog, context, references):
        if entry.deleted:
            raise not_there(reference)


def live_uses(catalog: Catalog, context: str, schema: SchemaEntry) -> list[tuple[str, int]]:
    """(subject's name, version) of the versions that have the schema and are not deleted."""
    subjects = catalog.context(context).subjects
    return [
        (name, version)
        for name, version in sorted(schema.used_by)
        if not subjects[name].versions[version].deleted
    ]


def check_unreferenced(
    catalog: Catalog, going: Collection[tuple[Subject, int]], *, permanent: bool
) -> None:
    """Raises the 42206 error where a version that stays refers to one that goes. Soft deletion
    asks the versions that are not deleted, permanent deletion all: they can be restored, and their
    ids can be read."""
    for subject, version in going:
        for context, schema in catalog.referrers(subject, version):
            uses = schema.used_by if permanent else live_uses(catalog, context, schema)
            if any((Subject(context, name), number) not in going for name, number in uses):
                raise errors.reference_exists(subject.qualified, version)
