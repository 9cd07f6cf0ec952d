"""The bodies of answers, in the two profiles: what the ecosystem's servers say up to 7.4, and what
those of 8.2 and later say.

The older clients fail on properties that they do not know, and some tools compare whole bodies, so
profile 7 says no more than it must. This is the only place that knows what differs.
"""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any, Final

from tallymark_schema_registry.catalog.content import AVRO, Content, guid_of
from tallymark_schema_registry.catalog.subject import parse_subject
from tallymark_schema_registry.decisions.commands import SchemaView, VersionView
from tallymark_schema_registry.errors import RegistryError

_INCOMPATIBLE: Final = 409
_INCOMPATIBLE_8: Final = 40901


class Profile(IntEnum):
    """``[registry] response_profile``."""

    SEVEN = 7
    EIGHT = 8

    def registered(self, view: VersionView) -> dict[str, Any]:
        """The answer to a registration: the id, and in profile 8 the whole version."""
        if self is Profile.SEVEN:
            return {"id": view.schema_id}
        return self.version(view)

    def version(self, view: VersionView, *, qualified: bool = False) -> dict[str, Any]:
        """One version. ``qualified``: its references name their context."""
        body: dict[str, Any] = {
            "subject": view.subject.qualified,
            "version": view.version,
            "id": view.schema_id,
            **self._content(view.content, view.md5, view.subject.context, qualified),
        }
        if self is Profile.EIGHT:
            body |= {"ts": view.at_ms, "deleted": view.deleted}
        return body

    def schema(self, view: SchemaView, *, qualified: bool = False) -> dict[str, Any]:
        """A schema by its id or guid."""
        body = self._content(view.content, view.md5, view.context, qualified)
        if self is Profile.EIGHT and view.subject is not None:
            return {"subject": view.subject.qualified, "version": view.version, **body}
        return body

    def code(self, error: RegistryError) -> int:
        """The ``error_code`` of an error."""
        incompatible = error.code == _INCOMPATIBLE and self is Profile.EIGHT
        return _INCOMPATIBLE_8 if incompatible else error.code

    def _content(self, content: Content, md5: str, context: str, qualified: bool) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if self is Profile.EIGHT:
            body["guid"] = guid_of(md5)
        if self is Profile.EIGHT or content.kind != AVRO:
            body["schemaType"] = content.kind
        body["schema"] = content.text
        if content.references:
            body["references"] = references(content, context if qualified else None)
        if content.metadata:
            body["metadata"] = json.loads(content.metadata)
        if content.rule_set:
            body["ruleSet"] = json.loads(content.rule_set)
        return body


def references(content: Content, context: str | None = None) -> list[dict[str, Any]]:
    """As requests have them; with ``context``, the one of the schema, subjects are qualified."""
    return [
        {
            "name": reference.name,
            "subject": reference.subject
            if context is None
            else parse_subject(reference.subject, context).qualified,
            "version": reference.version,
        }
        for reference in content.references
    ]
