"""Names, and the definitions that hold nothing but names and numbers: enums and fixeds.

What is sent is checked by the rules of Java's Avro 1.12. What is stored (``stored=True``) was taken
by a server with other rules, so whatever can be understood is: its names are any text.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tallymark.errors import TallymarkError
from tallymark_schema_registry.schemas.model import Enum, Fixed, Name, Props

MAX_NAME: Final = 1_000
"""Characters of a name, and of a namespace: every use of a short name within a long namespace
means both."""


class InvalidSchemaError(TallymarkError):
    """The text is not a valid Avro schema; says what is wrong."""


def enum_of(tree: dict[str, Any], name: Name, props: Props, stored: bool) -> Enum:
    """An enum as its JSON object has it. Raises InvalidSchemaError."""
    symbols = tree.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(item, str) for item in symbols):
        raise InvalidSchemaError(f"enum {name.full} has no list of symbols")
    for symbol in symbols:
        check_name(symbol, stored)
    if len(set(symbols)) != len(symbols) and not stored:
        raise InvalidSchemaError(f"enum {name.full} has a symbol twice")
    # A default that is no text is none, as Java reads it.
    default = text_of(tree, "default")
    if default is not None and default not in symbols:
        if not stored:
            raise InvalidSchemaError(f"the default of enum {name.full} is not one of its symbols")
        default = None
    doc, aliases = text_of(tree, "doc"), type_aliases(tree, name, stored)
    return Enum(name, tuple(symbols), default, doc, aliases, props)


def fixed_of(tree: dict[str, Any], name: Name, props: Props, stored: bool) -> Fixed:
    """A fixed as its JSON object has it. Raises InvalidSchemaError."""
    size = tree.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
        raise InvalidSchemaError(f"fixed {name.full} has no valid size")
    return Fixed(name, size, text_of(tree, "doc"), type_aliases(tree, name, stored), props)


def own_name(tree: dict[str, Any], space: str, stored: bool) -> Name:
    """The name of what ``tree`` defines; ``space`` is the enclosing namespace."""
    text = tree.get("name")
    if not isinstance(text, str):
        raise InvalidSchemaError(f"{tree['type']} without a name")
    own = tree.get("namespace")
    name = name_of(text, own if isinstance(own, str) else space, stored)
    # The enclosing namespace was checked where it was written.
    if name.space and name.space != space and not stored:
        for part in name.space.split("."):
            if not is_name(part):
                raise InvalidSchemaError(
                    f"{_shown(part)} in the namespace {_shown(name.space)} is not a name: "
                    "letters, digits and _, no digit first"
                )
    return name


def name_of(text: str, space: str, stored: bool = False) -> Name:
    """A dot in ``text`` overrides the namespace; ``.Y`` is Y without one. The namespace itself is
    not looked at: only those of definitions have to consist of names."""
    before, dot, simple = text.rpartition(".")
    check_name(simple, stored)
    name = Name(before if dot else space, simple)
    if len(name.space) > MAX_NAME:
        raise InvalidSchemaError(f"the namespace of {simple} is longer than {MAX_NAME} characters")
    return name


def check_name(text: str, stored: bool = False) -> None:
    """Raises InvalidSchemaError where ``text`` is no name of Avro's, or a very long one."""
    if len(text) > MAX_NAME:
        raise InvalidSchemaError(f"{text[:50]}... is longer than {MAX_NAME} characters")
    if not stored and not is_name(text):
        raise InvalidSchemaError(
            f"{_shown(text)} is not a name: letters, digits and _, no digit first"
        )


def is_name(text: str) -> bool:
    """``[A-Za-z_][A-Za-z0-9_]*``"""
    return text.isascii() and text.isidentifier()


def type_aliases(tree: dict[str, Any], name: Name, stored: bool) -> tuple[Name, ...]:
    """The aliases of the type ``name``, each once."""
    aliases = aliases_of(tree, stored)
    return tuple(dict.fromkeys(name_of(alias, name.space, stored) for alias in aliases))


def aliases_of(tree: dict[str, Any], stored: bool) -> list[str]:
    """The aliases of a type or field as they are written."""
    aliases = tree.get("aliases")
    if aliases is None and "aliases" not in tree:
        return []
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        if stored:
            return []
        raise InvalidSchemaError("aliases must be a list of names")
    return aliases


def text_of(tree: dict[str, Any], key: str) -> str | None:
    """The attribute, where it is a text."""
    value = tree.get(key)
    return value if isinstance(value, str) else None


def _shown(text: str) -> str:
    return json.dumps(text)[:100]
