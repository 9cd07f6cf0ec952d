"""What several routes that read have in common: how a schema is shown, which subjects are meant."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final, TypeVar

from tallymark_schema_registry.catalog.content import RULE_LISTS
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject
from tallymark_schema_registry.decisions import lists
from tallymark_schema_registry.decisions.commands import SchemaView, VersionView
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.web.call import Call
from tallymark_schema_registry.web.params import Page

View = TypeVar("View", VersionView, SchemaView)
ALL_CONTEXTS: Final = ":*:"


async def resolved(call: Call, view: VersionView | SchemaView, format: str) -> str:
    """The text in the format asked for; formats that are unknown mean the text as it is."""
    if format == "resolved" and view.content.references:
        return await call.registry.resolved_text(view)
    return view.content.text


async def shown(call: Call, view: View, format: str) -> View:
    """``view`` with its text in the format asked for."""
    text = await resolved(call, view, format)
    return replace(view, content=replace(view.content, text=text))


def is_qualified(reference_format: str) -> bool:
    return reference_format.lower() == "qualified"


def in_context(prefix: str | None, context: str) -> str:
    """A prefix of subjects with its context: where the path names one it is that, else nothing
    means all of them."""
    if prefix and prefix.startswith(":"):
        return prefix
    if context != DEFAULT_CONTEXT:
        return Subject(context, prefix or "").qualified
    return prefix or ALL_CONTEXTS


async def latest_with(
    call: Call, subject: Subject, wanted: dict[str, str], *, deleted: bool
) -> VersionView:
    """The latest version whose metadata has all these properties. 40401 or 40403."""
    await call.registry.versions(subject, deleted=deleted)  # so the catalog is current
    found = lists.latest_with_metadata(call.registry.catalog, subject, wanted, deleted=deleted)
    return await call.registry.version(subject, str(found.version.version), deleted=deleted)


async def with_rules(
    call: Call, prefix: str, rule_type: str, page: Page, *, latest_only: bool, deleted: bool
) -> list[VersionView]:
    """The versions that have a rule of a type."""
    await call.registry.subjects(prefix)  # so the catalog is current
    found = lists.all_versions(
        call.registry.catalog, prefix, latest_only=latest_only, deleted=deleted
    )
    kept = page.of([one for one in found if _has_rule(one.schema.rule_set, rule_type)])
    views = list[VersionView]()
    for one in kept:
        number = str(one.version.version)
        try:
            views.append(await call.registry.version(one.subject, number, deleted=deleted))
        except RegistryError as error:
            if error.status != 404:  # it was deleted meanwhile
                raise
    return views


def _has_rule(rule_set: str, rule_type: str) -> bool:
    rules = json.loads(rule_set) if rule_set else {}
    return any(rule.get("type") == rule_type for kind in RULE_LISTS for rule in rules.get(kind, ()))
