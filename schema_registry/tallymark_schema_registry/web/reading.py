"""What several routes that read have in common: how a schema is shown, which subjects are meant."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final, TypeVar

from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject
from tallymark_schema_registry.decisions.commands import SchemaView, VersionView
from tallymark_schema_registry.web.call import Call

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
) -> VersionView | None:
    """The latest version whose metadata has all these properties."""
    for number in reversed(await call.registry.versions(subject, deleted=deleted)):
        view = await call.registry.version(subject, str(number), deleted=deleted)
        metadata = json.loads(view.content.metadata or "{}")
        properties = metadata.get("properties") or {}
        if isinstance(properties, dict) and wanted.items() <= properties.items():
            return view
    return None
