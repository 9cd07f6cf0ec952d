"""Names, and the definitions that hold nothing but names and numbers: enums and fixeds."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tallymark.errors import TallymarkError
from tallymark_schema_registry.schemas.model import Enum, Fixed, Name, Props

MAX_NAME: Final = 1_000
"""Characters of a name, and of a namespace: every use of a short name within a long namespace
means both."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class InvalidSchemaError(TallymarkError):
    """The text is not a valid Avro schema; says what is wrong."""


def enum_of(tree: dict[str, Any], name: Name, props: Props) -> Enum:
    """An enum as its JSON object has it. Raises InvalidSchemaError."""
    symbols = tree.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(item, str) for item in symbols):
        raise InvalidSchemaError(f"enum {name.full} has no list of symbols")
    for symbol in symbols:
        check_name(symbol)
    if len(set(symbols)) != len(symbols):
        raise InvalidSchemaError(f"enum {name.full} has a symbol twice")
    default = tree.get("default")
    if default is not None and default not in symbols:
        raise InvalidSchemaError(f"the default of enum {name.full} is not one of its symbols")
    return Enum(
        name,
        tuple(symbols),
        default,
        text_of(tree, "doc"),
        tuple(name_of(alias, name.space) for alias in aliases_of(tree)),
        props,
    )


def fixed_of(tree: dict[str, Any], name: Name, props: Props) -> Fixed:
    """A fixed as its JSON object has it. Raises InvalidSchemaError."""
    size = tree.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
        raise InvalidSchemaError(f"fixed {name.full} has no valid size")
    aliases = tuple(name_of(alias, name.space) for alias in aliases_of(tree))
    return Fixed(name, size, text_of(tree, "doc"), aliases, props)


def own_name(tree: dict[str, Any], space: str) -> Name:
    """The name of what ``tree`` defines; ``space`` is the enclosing namespace."""
    text = tree.get("name")
    if not isinstance(text, str):
        raise InvalidSchemaError(f"{tree['type']} without a name")
    own = tree.get("namespace", space)
    return name_of(text, own if isinstance(own, str) else space)


def name_of(text: str, space: str) -> Name:
    """A dot in ``text`` overrides the namespace; ``.Y`` is Y without one."""
    before, dot, simple = text.rpartition(".")
    check_name(simple)
    name = Name(before if dot else space, simple)
    if len(name.space) > MAX_NAME:
        raise InvalidSchemaError(f"the namespace of {simple} is longer than {MAX_NAME} characters")
    return name


def check_name(text: str) -> None:
    """Raises InvalidSchemaError where ``text`` is no name of Avro's, or a very long one."""
    if len(text) > MAX_NAME:
        raise InvalidSchemaError(f"{text[:50]}... is longer than {MAX_NAME} characters")
    if not _NAME.fullmatch(text):
        raise InvalidSchemaError(
            f"{json.dumps(text)[:100]} is not a name: letters, digits and _, no digit first"
        )


def aliases_of(tree: dict[str, Any]) -> list[str]:
    """The aliases of a type or field as they are written."""
    aliases = tree.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise InvalidSchemaError("aliases must be a list of names")
    return aliases


def text_of(tree: dict[str, Any], key: str) -> str | None:
    """The attribute, where it is a text."""
    value = tree.get(key)
    return value if isinstance(value, str) else None
