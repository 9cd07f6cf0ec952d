"""Schemas: the subjects of the registry, their versions, what differs and what is compatible. From
the snapshot, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tallymark_dashboards.frame.ask import LEFT_OUT, Ask
from tallymark_dashboards.frame.missing import Near, missing, nearest
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.snapshots.registry_shapes import (
    RegistryState,
    SubjectState,
    SubjectVersion,
)
from tallymark_dashboards.view.clusters.schema_texts import (
    MAX_CHECKED,
    Check,
    Parsed,
    Text,
    diff_lines,
    previous,
)
from tallymark_dashboards.view.clusters.stale import stale_parts

SUBJECTS: Final = 50
VERSIONS: Final = 100
USES: Final = 50


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version and whether it may follow those before it."""

    version: SubjectVersion
    check: Check


@page("/schemas", name="schemas", nav="Schemas", live=True, ranged=False, needs_store=False)
def schemas(ask: Ask) -> Page:
    """All subjects, by name."""
    registry = ask.context.snapshots.registry
    subjects = registry.subjects.value
    find = ask.text("q")
    found = [one for name, one in sorted(subjects.items()) if find.lower() in name.lower()]
    paging = ask.paging(len(found), SUBJECTS)
    values = {
        "rows": found[paging.skip : paging.skip + SUBJECTS],
        "found": len(found),
        "known": len(subjects),
        "q": find,
        "registry": registry,
        "number": paging.number,
        "pages": paging.pages,
        "stale": stale_parts("Schema registry", [("subjects", registry.subjects)], ask.now),
    }
    return Page("Schemas", "pages/schemas.html", values, "warn" if values["stale"] else "")


@page("/schema", name="schema", nav="Schemas", ranged=False, needs_store=False)
def schema(ask: Ask) -> Page:
    """One subject: its versions, the text of one, and what differs from another."""
    registry = ask.context.snapshots.registry
    name = ask.text("subject")
    subject = registry.subjects.value.get(name)
    if subject is None:
        return _no_subject(registry, name)
    parsed = parsed_of(registry)
    numbers = [one.version for one in subject.versions]
    newest = subject.latest.version if subject.latest else numbers[-1]
    version = ask.number("version", newest, 1, 2**31 - 1)
    shown = next((one for one in subject.versions if one.version == version), None)
    if shown is None:
        near = [
            Near(f"version {one}", "schema", {"subject": name, "version": one})
            for one in sorted(numbers, key=lambda one: abs(one - version))[:5]
        ]
        return missing("version", f"{version} of {name}", near)
    before = versions_before(subject)
    text = parsed.canonical(name, version, shown.text)
    values: dict[str, Any] = {
        "subject": subject,
        "shown": shown,
        "text": text,
        "rows": version_rows(subject, parsed, VERSIONS),
        "more": max(0, len(numbers) - VERSIONS),
        "uses": _uses(registry, subject),
        "stale": stale_parts("Schema registry", [("subjects", registry.subjects)], ask.now),
        "registry": registry,
    }
    values |= _compared(ask, subject, shown, text, parsed, before.get(version, []))
    wrong = sum(one.check.compatible is False for one in values["rows"])
    return Page(name, "pages/schema.html", values, "warn" if wrong else "", wrong)


def version_rows(subject: SubjectState, parsed: Parsed, most: int) -> list[VersionRow]:
    """So many versions, the newest first; the newest of them are checked."""
    before = versions_before(subject)
    rows: list[VersionRow] = []
    for number, one in enumerate(reversed(subject.versions[-most:])):
        if one.deleted:
            check = Check(None, "deleted")
        elif number >= MAX_CHECKED:
            check = Check(None, f"only the newest {MAX_CHECKED} are checked")
        else:
            check = parsed.check(subject.level, subject.subject, one.version, before[one.version])
        rows.append(VersionRow(one, check))
    return rows


def versions_before(subject: SubjectState) -> Mapping[int, list[int]]:
    """Of each version that is not deleted those before it, the newest first."""
    return previous([one.version for one in subject.versions if not one.deleted])


def parsed_of(registry: RegistryState) -> Parsed:
    """What reads the schemas of the registry, once each."""

    def find(subject: str, version: int) -> Text | None:
        known = registry.subjects.value.get(subject)
        for one in known.versions if known else ():
            if one.version == version:
                references = tuple((to.subject, to.version) for to in one.references)
                return Text(one.kind, one.text, references)
        return None

    return Parsed(find)


def _compared(
    ask: Ask,
    subject: SubjectState,
    shown: SubjectVersion,
    text: str,
    parsed: Parsed,
    before: list[int],
) -> dict[str, Any]:
    """What differs from the version before, or from the one asked for."""
    numbers = [one.version for one in subject.versions]
    earlier = before[0] if before else 0
    instead = f"version {earlier} is taken" if earlier else LEFT_OUT
    against = ask.number_if("against", 1, 2**31 - 1, instead) or earlier
    other = next((one for one in subject.versions if one.version == against), None)
    if other is None or other is shown:
        said = f"There is no version {against}." if against and against not in numbers else ""
        return {"other": None, "lines": [], "changes": [], "no_other": said}
    old = parsed.canonical(subject.subject, other.version, other.text)
    return {
        "other": other,
        "lines": diff_lines(old, text),
        "changes": parsed.changes(subject.subject, other.version, shown.version),
        "no_other": "",
    }


def _uses(registry: RegistryState, subject: SubjectState) -> list[tuple[str, int]]:
    """(subject, version) of schemas that refer to this subject."""
    found = [
        (name, one.version)
        for name, other in registry.subjects.value.items()
        for one in other.versions
        if any(reference.subject == subject.subject for reference in one.references)
    ]
    return sorted(found)[:USES]


def _no_subject(registry: RegistryState, name: str) -> Page:
    near = [Near(one, "schema", {"subject": one}) for one in nearest(name, registry.subjects.value)]
    hint = f"The registry has {len(registry.subjects.value):,} subjects."
    if not registry.subjects.at:
        why = registry.subjects.error or "they were not read yet"
        hint = f"The subjects of the registry are not known: {why}"
    return missing("subject", name, near, hint)
