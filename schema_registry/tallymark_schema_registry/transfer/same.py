"""When two contents are the same schema, though registries write them differently. Pure.

A registry stores what it makes of a text: one writes needless namespaces, another sorts all keys.
What is not equal is compared part by part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from difflib import unified_diff
from typing import Any

from tallymark_schema_registry.catalog.content import AVRO, Content
from tallymark_schema_registry.catalog.contracts import metadata_text, rule_set_text
from tallymark_schema_registry.catalog.subject import parse_subject
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.transfer.avro_tree import AvroTree
from tallymark_schema_registry.transfer.snapshot import content_document

_MOST_LINES = 60


def same_content(one: Content, other: Content, context: str) -> bool:
    """Whether both are the same schema, in ``context``."""
    return one == other or not any(_differing_parts(one, other, context))


def difference(one: Content, other: Content, context: str) -> str:
    """What differs, for people: at most 60 lines, ``-`` for ``one``, ``+`` for ``other``."""
    parts = ", ".join(_differing_parts(one, other, context))
    lines = list(unified_diff(_pretty(one), _pretty(other), lineterm="", n=2))[2:]
    more = [f"... {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    return "\n".join([f"different {parts}", *lines[:_MOST_LINES], *more])


def _differing_parts(one: Content, other: Content, context: str) -> Iterator[str]:
    if one.kind.upper() != other.kind.upper():
        yield "type"
    elif not _same_text(one.kind.upper(), one.text, other.text):
        yield "schema"
    if _references(one, context) != _references(other, context):
        yield "references"
    if _carried(one.metadata, metadata_text) != _carried(other.metadata, metadata_text):
        yield "metadata"
    if _carried(one.rule_set, rule_set_text) != _carried(other.rule_set, rule_set_text):
        yield "rule set"


def _same_text(kind: str, one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        if kind == AVRO:
            return bool(_ordered(AvroTree(one).tree) == _ordered(AvroTree(other).tree))
        return bool(json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return one.strip() == other.strip()


def _ordered(tree: Any) -> str:
    """JSON with sorted keys: in Python 1 == True == 1.0, in a schema they are three defaults."""
    return json.dumps(tree, sort_keys=True)


def _references(content: Content, context: str) -> list[tuple[str, str, int]]:
    return sorted(
        (one.name, parse_subject(one.subject, context).qualified, one.version)
        for one in content.references
    )


def _carried(text: str, stored: Callable[[Any], str]) -> str:
    """Metadata or rules as this registry stores them: some registries give back what is null or a
    default, others do not. What it would refuse is compared as it is; "" for none and for {}."""
    try:
        found = stored(json.loads(text)) if text else ""
    except RegistryError:
        return text
    return "" if found == "{}" else found


def _pretty(content: Content) -> list[str]:
    document = content_document(content)
    try:
        document["schema"] = json.loads(content.text)
    except (ValueError, RecursionError):
        document["schema"] = content.text.splitlines()
    return json.dumps(document, indent=1, ensure_ascii=False).splitlines()
