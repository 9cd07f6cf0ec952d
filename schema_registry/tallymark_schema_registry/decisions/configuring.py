"""Levels and properties: what a request may set, and what is answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.contracts import metadata_text, rule_set_text
from tallymark_schema_registry.catalog.records import ConfigSet
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject, parse_subject
from tallymark_schema_registry.decisions.commands import Decision, DeleteConfig, SetConfig
from tallymark_schema_registry.decisions.scope import (
    LEVEL,
    LOGICAL,
    POLICY,
    check_writable,
    config_at,
    config_in_scope,
)
from tallymark_schema_registry.levels import Level

_SENT_LEVEL: Final = "compatibility"
"""A request and its answer say ``compatibility``, all other answers ``compatibilityLevel``."""


def config(
    catalog: Catalog, subject: Subject, *, default_to_global: bool = False
) -> dict[str, Any]:
    """What is set for a subject or a context, with the level that is in force; the 40408 error
    where nothing is. With ``default_to_global``, and always for the default context: what is in
    force."""
    if default_to_global or _is_default(subject):
        return config_in_scope(catalog, subject)
    return {**_own(catalog, subject, errors.no_subject_level), LEVEL: _level(catalog, subject)}


def set_config(catalog: Catalog, command: SetConfig) -> Decision:
    """Properties that the request does not have stay; those that are null go. A request without
    any is answered with what is in force."""
    subject = command.subject
    changes = _changes(command.values, subject)
    check_writable(catalog, subject)
    there = config_at(catalog, subject)
    if not changes:
        return Decision((), _as_request(there or config_in_scope(catalog, subject)))
    merged = {**(there or {}), **changes}
    values = {key: merged[key] for key in _READERS if merged.get(key) is not None}
    records: tuple[ConfigSet, ...] = ()
    if values != (there or {}):
        records = (ConfigSet(subject.context, subject.name, values or None),)
    return Decision(records, _as_request(values))


def delete_config(catalog: Catalog, command: DeleteConfig) -> Decision:
    """The default context always has a config: where none is set, nothing changes."""
    subject = command.subject
    if _is_default(subject) and config_at(catalog, subject) is None:
        check_writable(catalog, subject)
        return Decision((), config_in_scope(catalog, subject))
    old = _own(catalog, subject, errors.subject_not_found)
    check_writable(catalog, subject)
    record = ConfigSet(subject.context, subject.name, None)
    return Decision((record,), {**old, LEVEL: _level(catalog, subject)})


def _is_default(subject: Subject) -> bool:
    return subject == Subject(DEFAULT_CONTEXT, "")


def _own(
    catalog: Catalog, subject: Subject, missing: Callable[[str], errors.RegistryError]
) -> dict[str, Any]:
    values = config_at(catalog, subject)
    if values is None:
        raise missing(subject.qualified)
    return values


def _level(catalog: Catalog, subject: Subject) -> str:
    return str(config_in_scope(catalog, subject)[LEVEL])


def _as_request(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_SENT_LEVEL if key == LEVEL else key: value for key, value in values.items()}


# --- what a request says


def _changes(request: Mapping[str, Any], subject: Subject) -> dict[str, Any]:
    """The known properties as they are stored; None for those that are to go."""
    sent = dict(request)
    if _SENT_LEVEL in sent:
        sent[LEVEL] = sent.pop(_SENT_LEVEL)
    changes: dict[str, Any] = {}
    for key, read in _READERS.items():
        if key in sent:
            changes[key] = None if sent[key] is None else read(sent[key], key)
    if changes.get("alias"):
        parse_subject(changes["alias"], subject.context)
    return changes


def _read_level(value: Any, _: str) -> str:
    if not isinstance(value, str) or value.upper() not in Level.__members__:
        raise errors.invalid_level()
    return value.upper()


def _read_policy(value: Any, _: str) -> str:
    if not isinstance(value, str) or value.upper() != LOGICAL:
        raise errors.invalid_policy()
    return LOGICAL


def _read_text(value: Any, key: str) -> str | None:
    """An empty text is none."""
    if not isinstance(value, str) or not value.isprintable():
        raise errors.bad_json(f"{key} must be a text")
    return value or None


def _read_flag(value: Any, key: str) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise errors.bad_json(f"{key} must be true or false")
    return value


def _read_metadata(value: Any, _: str) -> Any:
    return json.loads(metadata_text(value))


def _read_rules(value: Any, _: str) -> Any:
    return json.loads(rule_set_text(value))


_READERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "alias": _read_text,
    "normalize": _read_flag,
    "validateFields": _read_flag,
    "validateNames": _read_flag,
    LEVEL: _read_level,
    POLICY: _read_policy,
    "compatibilityGroup": _read_text,
    "defaultMetadata": _read_metadata,
    "overrideMetadata": _read_metadata,
    "defaultRuleSet": _read_rules,
    "overrideRuleSet": _read_rules,
}
