"""Metadata and rule sets: what a schema carries beside its types. Pure.

The registry keeps them, merges them and counts them to a schema's identity; serializers act on
them. They are JSON texts with sorted keys; "" is none, and "{}" is "none, and inherit none"::

    metadata  {"tags": {path: [tag]}, "properties": {name: text}, "sensitive": [name]}
    rule set  {"migrationRules": [rule], "domainRules": [rule], "encodingRules": [rule]}
    rule      {"name", "type", "kind", "mode", "disabled"; "doc", "tags", "params", "expr", ...}

Sets (tags, sensitive) are sorted, so that equal values are equal texts.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import Any, Final

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.content import (
    RULE_LISTS,
    is_unicode,
    java_order,
    sorted_json,
)

VERSION_PROPERTY: Final = "confluent:version"
"""A property of the metadata that the registry keeps equal to the version's number."""

MAX_CHARACTERS: Final = 100_000
"""Of a metadata or rule set. Each decision about a schema reads them, between other requests."""

_MODES: Final = {
    "migrationRules": ("UPGRADE", "DOWNGRADE", "UPDOWN"),
    "domainRules": ("WRITE", "READ", "WRITEREAD"),
    "encodingRules": ("WRITE", "READ", "WRITEREAD"),
}
_RULE_TEXTS: Final = ("name", "doc", "kind", "mode", "type", "expr", "onSuccess", "onFailure")
_KINDS: Final = ("TRANSFORM", "CONDITION")


# --- from a request


def metadata_text(value: Any, *, strict: bool = True) -> str:
    """The metadata of a request, as it is stored. Raises the 400 error where its types are wrong;
    unknown attributes are left out, as the ecosystem's servers do. ``strict`` False: it was
    accepted elsewhere, whatever its size."""
    if value is None:
        return ""
    tree = _object(value, "metadata")
    tags = {
        path: _names(names, f"metadata.tags.{path}")
        for path, names in _object(tree.get("tags"), "metadata.tags").items()
    }
    kept = {
        "tags": tags,
        "properties": _texts(tree.get("properties"), "metadata.properties"),
        "sensitive": _names(tree.get("sensitive"), "metadata.sensitive"),
    }
    return _whole({key: item for key, item in kept.items() if item}, strict)


def rule_set_text(value: Any, *, strict: bool = True) -> str:
    """The rule set of a request, as it is stored. Raises the 400 error where its types are wrong,
    and the 42210 error where it is not valid; that not, if ``strict`` is False."""
    if value is None:
        return ""
    tree = _object(value, "ruleSet")
    kept: dict[str, Any] = {}
    for key, modes in _MODES.items():
        rules = tree.get(key)
        if rules is not None and not isinstance(rules, list):
            raise errors.bad_json(f"ruleSet.{key} must be a list")
        found = [_rule(rule, key) for rule in rules or ()]
        if strict:
            _check_rules(found, key, modes)
        if found:
            kept[key] = found
    enable_only_at = tree.get("enableOnlyAt")
    if isinstance(enable_only_at, str):
        kept["enableOnlyAt"] = enable_only_at
    return _whole(kept, strict)


def _rule(value: Any, key: str) -> dict[str, Any]:
    tree = _object(value, f"ruleSet.{key}")
    rule: dict[str, Any] = {"kind": "TRANSFORM", "mode": "WRITEREAD"}
    for name in _RULE_TEXTS:
        text = tree.get(name)
        if text is None:
            continue
        if not isinstance(text, str):
            raise errors.bad_json(f"ruleSet.{key}.{name} must be a text")
        rule[name] = text
    tags = _names(tree.get("tags"), f"ruleSet.{key}.tags")
    params = _texts(tree.get("params"), f"ruleSet.{key}.params")
    disabled = tree.get("disabled", False)
    if not isinstance(disabled, bool):
        raise errors.bad_json(f"ruleSet.{key}.disabled must be true or false")
    if tags:
        rule["tags"] = tags
    if params:
        rule["params"] = params
    return {**rule, "disabled": disabled}


def _check_rules(rules: list[dict[str, Any]], key: str, modes: tuple[str, ...]) -> None:
    for rule in rules:
        _check_rule(rule, key, modes)
    for name, times in Counter(rule["name"] for rule in rules).items():
        if times > 1:
            raise errors.invalid_rule_set(f"{key} has more than one rule named '{name}'")


def _check_rule(rule: dict[str, Any], key: str, modes: tuple[str, ...]) -> None:
    name = rule.get("name", "")
    first, rest = name[:1], name[1:]
    if not name:
        raise errors.invalid_rule_set(f"a rule of {key} has no name")
    if not (first.isalpha() or first == "_") or not all(c.isalnum() or c in "_-" for c in rest):
        raise errors.invalid_rule_set(
            f"'{name}' of {key} is not a name: letters, digits, _ and -, no digit first"
        )
    if not rule.get("type"):
        raise errors.invalid_rule_set(f"rule '{name}' of {key} has no type")
    if rule["kind"] not in _KINDS:
        raise errors.invalid_rule_set(f"the kind of rule '{name}' is not one of {_listed(_KINDS)}")
    if rule["mode"] not in modes:
        raise errors.invalid_rule_set(
            f"the mode of rule '{name}' of {key} is not one of {_listed(modes)}"
        )


def _object(value: Any, what: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise errors.bad_json(f"{what} must be an object")
    return value


def _texts(value: Any, what: str) -> dict[str, str]:
    """Numbers and booleans become the texts that JSON has for them."""
    texts: dict[str, str] = {}
    for key, item in _object(value, what).items():
        if isinstance(item, dict | list):
            raise errors.bad_json(f"{what}.{key} must be a text")
        if item is not None:
            texts[key] = item if isinstance(item, str) else json.dumps(item)
    return texts


def _names(value: Any, what: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise errors.bad_json(f"{what} must be a list of texts")
    return sorted(set(value), key=java_order)


def _whole(value: dict[str, Any], strict: bool) -> str:
    text = sorted_json(value)
    if strict and len(text) > MAX_CHARACTERS:
        raise errors.contract_too_large(MAX_CHARACTERS)
    if not is_unicode(text):
        raise errors.bad_json("a text has one half of a surrogate pair")
    return text


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(words)


# --- merging


def merged_metadata(*layers: str) -> str:
    """Later layers win: by path of the tags and name of the properties; sensitive names add up."""
    found = [layer for layer in layers if layer]
    if len(found) < 2:
        return found[0] if found else ""
    result: dict[str, Any] = {}
    for layer in found:
        old, new = result, json.loads(layer)
        result = {
            key: {**old.get(key, {}), **new.get(key, {})}
            for key in ("tags", "properties")
            if old.get(key) or new.get(key)
        }
        sensitive = {*old.get("sensitive", ()), *new.get("sensitive", ())}
        if sensitive:
            result["sensitive"] = sorted(sensitive, key=java_order)
    return sorted_json(result)


def merged_rule_sets(*layers: str) -> str:
    """Later layers win by the name of the rule; a rule that is replaced moves to the end."""
    found = [layer for layer in layers if layer]
    if len(found) < 2:
        return found[0] if found else ""
    result: dict[str, Any] = {}
    for layer in found:
        old, new = result, json.loads(layer)
        result = {**old, **new}
        for key in RULE_LISTS:
            if key in result:
                result[key] = _merged_rules(old.get(key, []), new.get(key, []))
    return sorted_json(result)


def _merged_rules(old: list[Any], new: list[Any]) -> list[Any]:
    names = {rule.get("name") for rule in new}
    return [rule for rule in old if rule.get("name") not in names] + new


# --- single properties


@lru_cache(maxsize=4096)
def property_of(metadata: str, name: str) -> str | None:
    """A property of a metadata text. Groups ask each version of a subject for the same one."""
    if not metadata:
        return None
    value: str | None = json.loads(metadata).get("properties", {}).get(name)
    return value


def version_of(metadata: str) -> int | None:
    """The number that the metadata says the version has; None where it says none."""
    if VERSION_PROPERTY not in metadata:
        return None
    text = property_of(metadata, VERSION_PROPERTY) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None


def with_version(metadata: str, version: int) -> str:
    """The metadata with the number in it."""
    own = sorted_json({"properties": {VERSION_PROPERTY: str(version)}})
    return merged_metadata(metadata, own)


def without_version(metadata: str) -> str:
    """The metadata without the number; "{}" where nothing else is in it."""
    tree = json.loads(metadata or "{}")
    tree.get("properties", {}).pop(VERSION_PROPERTY, None)
    return sorted_json({key: value for key, value in tree.items() if value})
