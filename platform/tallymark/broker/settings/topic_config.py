"""The definition of one config of topics. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_types import ConfigType, Rule, shown


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One row of :data:`tallymark.broker.settings.topic_configs.RULES`.

    ``field`` is the field of :class:`~tallymark.log.config.LogConfig` that gets the value that
    ``rule`` returns; empty where the log does not use it. ``setting`` is the field of
    :class:`~tallymark.broker.settings.broker.BrokerSettings` with the default of topics; without
    one ``default`` is used. ``without_effect`` is the reason why the config is stored and has no
    effect.
    """

    name: str
    type: ConfigType
    rule: Rule
    doc: str
    field: str = ""
    setting: str = ""
    default: str = ""
    without_effect: str = ""

    def inherited(self, settings: BrokerSettings) -> str:
        """The value, as text, of topics that do not set it."""
        return shown(getattr(settings, self.setting)) if self.setting else self.default


def table(*rows: TopicConfig) -> Mapping[str, TopicConfig]:
    """The rows by name, in the order of names."""
    return {row.name: row for row in sorted(rows, key=lambda row: row.name)}
