"""What topics and brokers are configured to, as DescribeConfigs and CreateTopics tell it. Pure.

A topic's config is looked for in three places, the first wins; together they are its synonyms::

    retention.ms      = 5000        TOPIC           set on the topic
    log.retention.ms  = 604800000   STATIC_BROKER   set in the broker's settings
    log.retention.ms  = 604800000   DEFAULT         what is so without any setting
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import annotated_types
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from tallymark.broker.config_types import INT_MAX, ConfigSource, ConfigType, shown
from tallymark.broker.settings import BrokerSettings, is_secret, kafka_name
from tallymark.broker.topic_configs import TopicConfig
from tallymark.broker.topic_rules import RULES, understood


@dataclass(frozen=True, slots=True)
class Synonym:
    """One place that says what a config is. ``value`` is None for a secret."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class Described:
    """One config as it is in force. ``synonyms`` has at least one, the first is in force."""

    name: str
    type: ConfigType
    doc: str
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]

    @property
    def value(self) -> str | None:
        """The value in force, None for a secret."""
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        """Where it comes from."""
        return self.synonyms[0].source


def describe_topic(settings: BrokerSettings, overrides: Mapping[str, str]) -> list[Described]:
    """Every config of a topic with these configs of its own, by name in order. Those that this
    broker does not understand have no effect and are left out."""
    given = understood(overrides)
    return [
        Described(
            row.name,
            row.type,
            row.doc,
            read_only=False,
            sensitive=False,
            synonyms=tuple(_of_topic(row, settings, given)),
        )
        for row in RULES.values()
    ]


def _of_topic(
    row: TopicConfig, settings: BrokerSettings, given: Mapping[str, str]
) -> Iterator[Synonym]:
    if row.name in given:
        yield Synonym(row.name, given[row.name], ConfigSource.TOPIC)
    if row.setting:
        yield from _of_broker(row.setting, settings)
    else:
        yield Synonym(row.name, row.default, ConfigSource.DEFAULT)


def describe_broker(settings: BrokerSettings) -> list[Described]:
    """Every setting of this broker, by name in order. They change with a restart only."""
    return [
        Described(
            kafka_name(field),
            _type(info),
            " ".join((info.description or "").replace("``", "").split()),
            read_only=True,
            sensitive=is_secret(field),
            synonyms=tuple(_of_broker(field, settings)),
        )
        for field, info in sorted(BrokerSettings.model_fields.items())
    ]


def _of_broker(field: str, settings: BrokerSettings) -> Iterator[Synonym]:
    """What was set, where it was, then the default."""
    name, secret = kafka_name(field), is_secret(field)

    def text(value: object) -> str | None:
        return None if secret or value is None else shown(value)

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
