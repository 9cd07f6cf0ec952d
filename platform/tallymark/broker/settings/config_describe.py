"""The configs of topics and brokers, as DescribeConfigs and CreateTopics return them. Pure.

A topic's config is looked up in several sources; the first one with a value is used. All of them
are its synonyms::

    retention.bytes      = 5000   TOPIC                    set on the topic
    log.retention.bytes  = 7000   DYNAMIC_BROKER           set at run time for this broker
    log.retention.bytes  = 6000   DYNAMIC_DEFAULT_BROKER   set at run time for all brokers
    log.retention.bytes  = 9000   STATIC_BROKER            set in the broker's settings
    log.retention.bytes  = -1     DEFAULT                  the value without any setting

Kafka's brokers have no default for ``log.retention.ms``, ``log.roll.ms`` and
``log.flush.interval.ms`` (others in hours follow them): a topic that sets nothing has no
synonym of these then, and a value nevertheless. ``min.insync.replicas`` is set for all brokers of
every cluster.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import annotated_types
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_types import INT_MAX, ConfigSource, ConfigType, shown
from tallymark.broker.settings.dynamic import DYNAMIC, Dynamic
from tallymark.broker.settings.group_configs import GROUP_RULES
from tallymark.broker.settings.names import is_secret, kafka_name
from tallymark.broker.settings.topic_config import TopicConfig
from tallymark.broker.settings.topic_configs import RULES, understood

NOTHING: Final = Dynamic()
"""Nothing was set at run time."""
_OF_THE_CLUSTER: Final = frozenset({"min.insync.replicas"})
"""Configs that a new cluster of Kafka 4 sets for all its brokers (KIP-966)."""
_WITHOUT_DEFAULT: Final = frozenset({"log_retention_ms", "log_roll_ms", "log_flush_interval_ms"})
"""Settings that are null by default in Kafka."""


@dataclass(frozen=True, slots=True)
class Synonym:
    """One source of a config with its value there; ``value`` is None for a secret."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class Described:
    """One config with the value in force (None for a secret) and the source of that value. The
    first of its ``synonyms`` is in force; without any it is the default."""

    name: str
    type: ConfigType
    doc: str
    read_only: bool
    sensitive: bool
    value: str | None
    source: ConfigSource
    synonyms: tuple[Synonym, ...]


def describe_topic(
    settings: BrokerSettings, overrides: Mapping[str, str], dynamic: Dynamic = NOTHING
) -> list[Described]:
    """Every config of a topic with these configs of its own, in order of names. Those that this
    broker does not know have no effect and are left out."""
    given = understood(overrides)
    found: list[Described] = []
    for row in RULES.values():
        synonyms = tuple(_of_topic(row, settings, given, dynamic))
        value, source = row.inherited(settings), ConfigSource.DEFAULT
        if synonyms:
            value, source = synonyms[0].value or "", synonyms[0].source
        found.append(Described(row.name, row.type, row.doc, False, False, value, source, synonyms))
    return found


def _of_topic(
    row: TopicConfig, settings: BrokerSettings, given: Mapping[str, str], dynamic: Dynamic
) -> Iterator[Synonym]:
    if row.name in given:
        yield Synonym(row.name, given[row.name], ConfigSource.TOPIC)
    if not row.setting:
        yield Synonym(row.name, row.default, ConfigSource.DEFAULT)
        return
    if row.name in _OF_THE_CLUSTER and row.name not in dynamic.everybody:
        default = row.inherited(settings)
        dynamic = replace(dynamic, everybody={**dynamic.everybody, row.name: default})
    for synonym in _of_broker(row.setting, settings, dynamic):
        if synonym.source != ConfigSource.DEFAULT or row.setting not in _WITHOUT_DEFAULT:
            yield synonym


def describe_broker(settings: BrokerSettings, dynamic: Dynamic = NOTHING) -> list[Described]:
    """Every setting of this broker, in order of names; ``settings`` are those at its start,
    ``dynamic`` those changed since. Settings that are not dynamic change only with a restart."""
    found: list[Described] = []
    for field, info in sorted(BrokerSettings.model_fields.items()):
        synonyms = tuple(_of_broker(field, settings, dynamic))
        first = synonyms[0]
        doc = " ".join((info.description or "").replace("``", "").split())
        name, secret = kafka_name(field), is_secret(field)
        fixed = name not in DYNAMIC
        found.append(
            Described(name, _type(info), doc, fixed, secret, first.value, first.source, synonyms)
        )
    return found


def describe_all_brokers(dynamic: Dynamic) -> list[Described]:
    """The settings changed at run time for all brokers, in order of names."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    found: list[Described] = []
    for config in describe_broker(BrokerSettings()):
        if config.name in dynamic.everybody:
            value = dynamic.everybody[config.name]
            synonyms = (Synonym(config.name, value, source),)
            found.append(replace(config, value=value, source=source, synonyms=synonyms))
    return found


def describe_group(given: Mapping[str, str]) -> list[Described]:
    """Every config of a group with these configs of its own, in order of names."""
    found: list[Described] = []
    for row in GROUP_RULES.values():
        value, source = row.default, ConfigSource.DEFAULT
        if row.name in given:
            value, source = given[row.name], ConfigSource.GROUP
        synonyms = (Synonym(row.name, value, source),)
        found.append(Described(row.name, row.type, row.doc, False, False, value, source, synonyms))
    return found


def describe_loggers(levels: Mapping[str, str]) -> list[Described]:
    """The broker's loggers and their levels."""
    kind, source = ConfigType.UNKNOWN, ConfigSource.DYNAMIC_BROKER_LOGGER
    return [
        Described(name, kind, "", False, False, level, source, (Synonym(name, level, source),))
        for name, level in levels.items()
    ]


def _of_broker(field: str, settings: BrokerSettings, dynamic: Dynamic) -> Iterator[Synonym]:
    """The synonyms: values set at run time, the setting at the start, then the default."""
    name, secret = kafka_name(field), is_secret(field)

    def text(value: object) -> str | None:
        return None if secret or value is None else shown(value)

    if name in dynamic.own:
        yield Synonym(name, dynamic.own[name], ConfigSource.DYNAMIC_BROKER)
    if name in dynamic.everybody:
        yield Synonym(name, dynamic.everybody[name], ConfigSource.DYNAMIC_DEFAULT_BROKER)
    if field in settings.model_fields_set:
        yield Synonym(name, text(getattr(settings, field)), ConfigSource.STATIC_BROKER)
    default = BrokerSettings.model_fields[field].get_default(call_default_factory=True)
    yield Synonym(name, text(default), ConfigSource.DEFAULT)


_TYPES: Final[Mapping[Any, ConfigType]] = {
    bool: ConfigType.BOOLEAN,
    float: ConfigType.DOUBLE,
    str: ConfigType.STRING,
    Path: ConfigType.STRING,
    tuple: ConfigType.LIST,
    list: ConfigType.LIST,
    SecretStr: ConfigType.PASSWORD,
}


def _type(info: FieldInfo) -> ConfigType:
    kinds = [kind for kind in _alternatives(info.annotation) if kind is not type(None)]
    if kinds == [int]:
        highest = [rule.le for rule in info.metadata if isinstance(rule, annotated_types.Le)]
        small = bool(highest) and all(_at_most_int(le) for le in highest)
        return ConfigType.INT if small else ConfigType.LONG
    return _TYPES.get(kinds[0] if kinds else str, ConfigType.STRING)


def _alternatives(annotation: Any) -> list[Any]:
    """``int | None`` -> int and NoneType; ``tuple[Path, ...]`` -> tuple."""
    origin = typing.get_origin(annotation)
    if origin is None:
        return [annotation]
    if isinstance(origin, type) and origin in _TYPES:
        return [origin]
    if origin is typing.Literal:
        return [str]
    return [typing.get_origin(part) or part for part in typing.get_args(annotation)]


def _at_most_int(highest: object) -> bool:
    return isinstance(highest, int) and highest <= INT_MAX
