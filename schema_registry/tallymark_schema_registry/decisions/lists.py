"""Reading subjects and versions out of the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog, SubjectCatalog
from tallymark_schema_registry.catalog.contracts import property_of
from tallymark_schema_registry.catalog.subject import (
    DEFAULT_CONTEXT,
    Subject,
)
from tallymark_schema_registry.decisions.asking import at, newest, newest_first
from tallymark_schema_registry.decisions.commands import Found
from tallymark_schema_registry.decisions.looking_up import in_some_context, version_number
from tallymark_schema_registry.decisions.scope import followed

ALL_CONTEXTS: Final = ":*:"
"""As the beginning of a prefix."""

T = TypeVar("T")


def page(items: Sequence[T], offset: int = 0, limit: int = -1) -> Sequence[T]:
    """A part of a list. A ``limit`` of 0 or below is no limit, an ``offset`` below 0 is 0."""
    start = max(offset, 0)
    return items[start : start + limit] if limit > 0 else items[start:]


def subjects(
    catalog: Catalog,
    prefix: str = "",
    *,
    context: str = DEFAULT_CONTEXT,
    deleted: bool = False,
    deleted_only: bool = False,
) -> list[str]:
    """Qualified names, sorted. ``deleted``: also of subjects that are soft-deleted as a whole,
    ``deleted_only``: only these."""
    names: list[str] = []
    for name, there in catalog.contexts.items():
        start = _prefix_in(name, prefix, context)
        if start is not None:
            # Written for speed: the event loop waits for 10,000 subjects.
            lead = Subject(name, "").qualified
            names += [
                lead + subject
                for subject, found in there.subjects.items()
                if subject.startswith(start) and _is_listed(found, deleted, deleted_only)
            ]
    return sorted(names)


def _is_listed(subject: SubjectCatalog, deleted: bool, deleted_only: bool) -> bool:
    if deleted_only:
        return bool(subject.versions) and not _is_live(subject)
    return bool(subject.versions) if deleted else _is_live(subject)


def _is_live(subject: SubjectCatalog) -> bool:
    for entry in reversed(subject.versions.values()):  # noqa: SIM110 (any() costs twice as much)
        if not entry.deleted:
            return True
    return False


def _with_prefix(
    catalog: Catalog, prefix: str, context: str
) -> Iterator[tuple[Subject, SubjectCatalog]]:
    for name, there in catalog.contexts.items():
        start = _prefix_in(name, prefix, context)
        if start is not None:
            for subject, found in there.subjects.items():
                if subject.startswith(start):
                    yield Subject(name, subject), found


def _prefix_in(name: str, prefix: str, context: str) -> str | None:
    """How a subject of the context ``name`` must begin to have the prefix; None where none has it.

    A prefix is for ``context``, or for what it names (``:.context:name``, ``:*:name``). None in the
    default context means all contexts, as in the ecosystem's servers."""
    if prefix.startswith(ALL_CONTEXTS):
        return prefix.removeprefix(ALL_CONTEXTS)
    if prefix.startswith(":"):
        qualified = f":{name}:"
        if prefix.startswith(qualified):
            return prefix.removeprefix(qualified)
        return "" if qualified.startswith(prefix) else None
    if not prefix and context == DEFAULT_CONTEXT:
        return ""
    return prefix if name == context else None


def versions(
    catalog: Catalog,
    subject: Subject,
    *,
    deleted: bool = False,
    deleted_only: bool = False,
    deleted_as_negative: bool = False,
) -> list[int]:
    """The numbers, ascending; with ``deleted_as_negative`` those of soft-deleted ones below 0, by
    their amount. The 40401 error where the subject is not there, or all of it is deleted and
    it was not asked for."""
    subject = followed(catalog, subject)
    found = catalog.subject(subject)
    asked = deleted or deleted_only or deleted_as_negative
    if found is None or not (asked or found.live()):
        raise errors.subject_not_found(subject.qualified)
    entries = found.versions.values()
    if deleted_only:
        return [entry.version for entry in entries if entry.deleted]
    if deleted_as_negative:
        return [-entry.version if entry.deleted else entry.version for entry in entries]
    return [entry.version for entry in entries if deleted or not entry.deleted]


def version(catalog: Catalog, subject: Subject, spec: str, *, deleted: bool = False) -> Found:
    """One version; ``spec`` is a number, "latest" or "-1". Also in another context, where the
    default one does not have the subject. 40401, 40402 or 42202."""
    number = version_number(spec)
    subject = in_some_context(catalog, followed(catalog, subject), deleted)
    # The latest one is one that is not deleted, also where deleted ones are asked for.
    found = newest(catalog, subject) if number is None else at(catalog, subject, number)
    if found and (deleted or not found.version.deleted):
        return found
    if not any(newest_first(catalog, subject, deleted=deleted)):
        raise errors.subject_not_found(subject.qualified)
    raise errors.version_not_found("latest" if number is None else number)


def all_versions(
    catalog: Catalog,
    prefix: str = "",
    *,
    context: str = DEFAULT_CONTEXT,
    latest_only: bool = False,
    deleted: bool = False,
    aliases: bool = False,
    offset: int = 0,
    limit: int = -1,
) -> list[Found]:
    """Every version of the subjects with a prefix, by subject and number; a part as by
    :func:`page`. ``aliases``: also of the subjects that they are aliases of."""
    names = {subject for subject, _ in _with_prefix(catalog, prefix, context)}
    if aliases:
        names |= set(aliases_of(catalog, prefix, context=context))
    start = max(offset, 0)
    result: list[Found] = []
    for subject in sorted(names, key=lambda subject: subject.qualified):
        if 0 < limit <= len(result) - start:
            break
        found = list(newest_first(catalog, subject, deleted=deleted))
        result += found[:1] if latest_only else reversed(found)
    return list(page(result, offset, limit))


def aliases_of(
    catalog: Catalog, prefix: str = "", *, context: str = DEFAULT_CONTEXT
) -> dict[Subject, list[str]]:
    """Subject -> the qualified names, of those with the prefix, that are its aliases."""
    result: dict[Subject, list[str]] = {}
    for place in catalog.configured():
        target = followed(catalog, place)
        start = _prefix_in(place.context, prefix, context)
        if target != place and start is not None and place.name.startswith(start):
            result.setdefault(target, []).append(place.qualified)
    return {target: sorted(names) for target, names in result.items()}


def latest_with_metadata(
    catalog: Catalog, subject: Subject, properties: Mapping[str, str], *, deleted: bool = False
) -> Found:
    """The newest version that has all these properties in its metadata. 40401 or 40403."""
    subject = followed(catalog, subject)
    there = False
    for found in newest_first(catalog, subject, deleted=deleted):
        there = True
        metadata = found.schema.metadata
        if all(property_of(metadata, name) == value for name, value in properties.items()):
            return found
    raise errors.schema_not_found() if there else errors.subject_not_found(subject.qualified)


def contexts(catalog: Catalog) -> list[str]:
    """The default one first, then by name."""
    return sorted(name for name, context in catalog.contexts.items() if context.listed)
