"""The page of the API: one HTML text made from the OpenAPI document. It loads nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any, Final

from tallymark_schema_registry.web.described import CODES, MEANINGS, RIGHT
from tallymark_schema_registry.web.negotiate import V1
from tallymark_schema_registry.web.responses import Profile

_SENTENCE: Final = re.compile(r"(?<=[.?;]) ")
_PROFILES: Final = {
    Profile.SEVEN: "Answers have the form of the ecosystem's servers up to 7.4.",
    Profile.EIGHT: "Answers have the form of the ecosystem's servers from 8.2 on.",
}


def page_of(document: dict[str, Any], profile: Profile) -> str:
    """The whole page."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation["tags"][0]
            by_tag.setdefault(tag, []).append(_operation(document, method, path, operation))
    links = "".join(f'<a href="#{_anchor(tag)}">{escape(tag)}</a>' for tag in by_tag)
    sections = "".join(
        f'<h2 id="{_anchor(tag)}">{escape(tag)}</h2>{"".join(parts)}'
        for tag, parts in by_tag.items()
    )
    title = escape(document["info"]["title"])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_style()}</style></head><body><main><h1>{title} "
        f'<span class="soft">{escape(document["info"]["version"])}</span></h1>'
        f"{_paragraphs(document['info']['description'])}<p>{escape(_PROFILES[profile])} For "
        'programs: <a href="openapi.json">openapi.json</a>.</p>'
        f"<nav>{links}</nav>{sections}</main></body></html>"
    )


@lru_cache(maxsize=1)
def _style() -> str:
    return Path(__file__).with_name("api_page.css").read_text(encoding="utf-8")


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> str:
    says = operation.get("description", "").replace("\n", " ")
    parts = [
        f"<p>{_text(says)}</p>",
        f'<p class="soft">Needs the right <code>{operation[RIGHT]}</code>.</p>'
        if RIGHT in operation
        else "",
        "".join(_parameters(operation)),
        "".join(_body(document, operation)),
        "".join(_answers(document, operation)),
    ]
    first = _SENTENCE.split(says, maxsplit=1)[0]
    return (
        f'<details><summary><span class="method {method}">{method.upper()}</span>'
        f'<code>{escape(path)}</code><span class="says">{_text(first.rstrip(".;"))}</span>'
        f'</summary><div class="inside">{"".join(parts)}</div></details>'
    )


def _parameters(operation: dict[str, Any]) -> Iterator[str]:
    parameters = operation.get("parameters", [])
    if parameters:
        yield "<h3>Parameters</h3><table>"
        for one in parameters:
            yield _row(one["name"], one["schema"], one.get("description", ""), one["in"])
        yield "</table>"


def _body(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"][V1]["schema"]
        yield f"<h3>Body</h3>{_properties(document, schema)}"


def _answers(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            schema = response.get("content", {}).get(V1, {}).get("schema", {})
            yield f"<h3>Answer {status}: {escape(_type_of(schema))}</h3>"
            yield _properties(document, schema.get("items", schema))
    codes = operation.get(CODES, [])
    if codes:
        rows = "".join(
            f"<tr><td><code>{code}</code></td><td>{_text(MEANINGS[code])}</td></tr>"
            for code in sorted(codes, key=str)
        )
        yield f"<h3>Errors</h3><table>{rows}</table>"


def _properties(document: dict[str, Any], schema: dict[str, Any]) -> str:
    """The properties of a schema that the document names; nothing for other ones."""
    model = document["components"]["schemas"].get(_name_of(schema), {})
    rows = "".join(
        _row(name, one, one.get("description", ""))
        for name, one in model.get("properties", {}).items()
    )
    says = _text(model.get("description", "").replace("\n", " "))
    return (f"<p>{says}</p>" if says else "") + (f"<table>{rows}</table>" if rows else "")


def _row(name: str, schema: dict[str, Any], description: str, place: str = "") -> str:
    where = f' <span class="soft">in the {place}</span>' if place else ""
    return (
        f"<tr><td><code>{escape(name)}</code>{where}</td>"
        f'<td class="soft">{escape(_type_of(schema))}</td><td>{_text(description)}</td></tr>'
    )


def _type_of(schema: dict[str, Any]) -> str:
    """In words: ``list of integer``, ``SchemaVersion``."""
    if "anyOf" in schema:
        kinds = [_type_of(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(kinds)
    if schema.get("type") == "array":
        return f"list of {_type_of(schema.get('items', {}))}"
    return str(_name_of(schema) or schema.get("const") or schema.get("type") or "any")


def _name_of(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_text(part)}</p>" for part in text.split("\n\n"))


def _text(text: str) -> str:
    """Text with ``code`` between backticks, as HTML."""
    parts = text.replace("``", "`").split("`")
    return "".join(
        f"<code>{escape(part)}</code>" if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def _anchor(tag: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in tag)
