"""Which level, properties, mode and alias are in force for a subject.

They are looked for at the subject, then its context, then :data:`GLOBAL`; else the server's default
holds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.subject import (
    DEFAULT_CONTEXT,
    GLOBAL,
    Subject,
    parse_subject,
)
from tallymark_schema_registry.levels import DEFAULT, Level

LEVEL: Final = "compatibilityLevel"
POLICY: Final = "compatibilityPolicy"
LOGICAL: Final = "LOGICAL"
"""The policy that refuses a schema that gives values of a logical type another meaning."""


class Mode(StrEnum):
    """READWRITE: registrations without ids. READONLY: nothing. READONLY_OVERRIDE: nothing, and no
    subject is excepted. IMPORT and FORWARD: registrations with ids, which are not compared."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"
    FORWARD = "FORWARD"

    @property
    def read_only(self) -> bool:
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)

    @property
    def importing(self) -> bool:
        """Ids are the client's."""
        return self in (Mode.IMPORT, Mode.FORWARD)


def places(subject: Subject) -> list[Subject]:
    """Where values that hold for a subject are looked for, the nearest first."""
    return list(dict.fromkeys((subject, subject.context_place, GLOBAL)))


def followed(catalog: Catalog, subject: Subject) -> Subject:
    """The subject that a client means by this name: its alias, if it has one. An alias of an
    alias is not followed."""
    values = catalog.context(subject.context).configs.get(subject.name)
    alias = values.get("alias") if values and subject.name else None
    return parse_subject(alias, subject.context) if alias else subject


def config_at(catalog: Catalog, place: Subject) -> dict[str, Any] | None:
    """What is set at exactly this place."""
    return catalog.context(place.context).configs.get(place.name)


def config_in_scope(catalog: Catalog, subject: Subject) -> dict[str, Any]:
    """What is in force: all properties of the nearest place that has any. The level alone is
    looked for further away: an alias is not meant to lower the subject's level."""
    found: dict[str, Any] = {}
    for place in places(subject):
        values = config_at(catalog, place)
        if values and not found:
            found = values
        if values and LEVEL in values:
            return {**found, LEVEL: values[LEVEL]}
    return {**found, LEVEL: str(DEFAULT)}


def level_in_scope(catalog: Catalog, subject: Subject) -> Level:
    return Level(config_in_scope(catalog, subject)[LEVEL])


def mode_at(catalog: Catalog, place: Subject) -> Mode | None:
    """The mode set at exactly this place."""
    found = catalog.context(place.context).modes.get(place.name)
    return Mode(found) if found else None


def overriding_mode(catalog: Catalog, subject: Subject) -> Mode | None:
    """READONLY_OVERRIDE of the subject's context, or of the whole registry: what a client sets
    without naming a subject, or at :data:`GLOBAL`."""
    above = (subject.context_place, Subject(DEFAULT_CONTEXT, ""), GLOBAL)
    stopped = any(mode_at(catalog, place) is Mode.READONLY_OVERRIDE for place in above)
    return Mode.READONLY_OVERRIDE if stopped else None


def mode_in_scope(catalog: Catalog, subject: Subject) -> Mode:
    """The mode in force."""
    override = overriding_mode(catalog, subject)
    if override:
        return override
    modes = (mode_at(catalog, place) for place in places(subject))
    return next((mode for mode in modes if mode), Mode.READWRITE)


def check_writable(catalog: Catalog, subject: Subject) -> None:
    """Raises the 42205 error in the modes in which nothing may change."""
    if mode_in_scope(catalog, subject).read_only:
        raise not_in_mode(subject, "is in read-only mode")


def not_in_mode(subject: Subject, why: str) -> errors.RegistryError:
    """The 42205 error about the mode of a subject, or of a context."""
    if not subject.name:
        return errors.not_permitted(f"Context {subject.context} {why}")
    return errors.not_permitted(f"Subject {subject.qualified} in context {subject.context} {why}")
