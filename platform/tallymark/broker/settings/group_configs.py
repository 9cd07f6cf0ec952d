"""Configs of groups (KIP-1043's resource type 32, KIP-848, KIP-932, KIP-1071): those of Kafka 4.1.
Pure.

They are for groups of the newer protocols, which are not served here: values are checked, stored
and described, and have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tallymark.broker.settings.config_alter import Change, edited, present
from tallymark.broker.settings.config_types import ConfigType, ConfigValue, between, one_of
from tallymark.broker.settings.topic_config import TopicConfig, table
from tallymark.errors import CODES, KafkaError

_SESSION: Final = between(45_000, 60_000)
_HEARTBEAT: Final = between(5_000, 15_000)
_DURATION: Final = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")
_NOT_SERVED: Final = "groups of this protocol are not served"


def _reset(text: str) -> ConfigValue:
    if text not in ("earliest", "latest") and not _DURATION.fullmatch(text):
        raise ValueError("must be earliest, latest or by_duration:PnDTnHnMn.nS")
    return text


def _row(name: str, kind: ConfigType, rule: object, default: str, doc: str) -> TopicConfig:
    return TopicConfig(name, kind, rule, doc, default=default, without_effect=_NOT_SERVED)  # type: ignore[arg-type]


_TIMEOUT = "How long a member may be silent before it is taken for dead."
_BEAT = "How often a member says that it lives."
GROUP_RULES: Final[Mapping[str, TopicConfig]] = table(
    _row("consumer.session.timeout.ms", ConfigType.INT, _SESSION, "45000", _TIMEOUT),
    _row("consumer.heartbeat.interval.ms", ConfigType.INT, _HEARTBEAT, "5000", _BEAT),
    _row("share.session.timeout.ms", ConfigType.INT, _SESSION, "45000", _TIMEOUT),
    _row("share.heartbeat.interval.ms", ConfigType.INT, _HEARTBEAT, "5000", _BEAT),
    _row(
        "share.record.lock.duration.ms",
        ConfigType.INT,
        between(15_000, 60_000),
        "30000",
        "How long a record that was handed out is kept from others.",
    ),
    _row(
        "share.auto.offset.reset",
        ConfigType.STRING,
        _reset,
        "latest",
        "Where a new share group begins to read.",
    ),
    _row(
        "share.isolation.level",
        ConfigType.STRING,
        one_of("read_uncommitted", "read_committed"),
        "read_uncommitted",
        "Whether a share group reads records of open transactions.",
    ),
    _row("streams.session.timeout.ms", ConfigType.INT, _SESSION, "45000", _TIMEOUT),
    _row("streams.heartbeat.interval.ms", ConfigType.INT, _HEARTBEAT, "5000", _BEAT),
    _row(
        "streams.num.standby.replicas",
        ConfigType.INT,
        between(0, 2),
        "0",
        "How many standby replicas each task has.",
    ),
)
"""Every config of groups, by name in order."""


def changed_group(current: Mapping[str, str], changes: Sequence[Change]) -> dict[str, str]:
    """The values after ``changes``. Raises INVALID_CONFIG, INVALID_REQUEST."""
    after = edited(current, changes, _is_list, lambda name: GROUP_RULES[name].default)
    for name, _, _ in changes:
        if name in after:
            _check(name, after[name])
    return after


def replaced_group(configs: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """The values after a request that sets exactly ``configs``. Raises as :func:`changed_group`."""
    values = {name: present(name, value) for name, value in configs}
    for name, value in values.items():
        _check(name, value)
    return values


def _check(name: str, value: str) -> None:
    _is_list(name)
    try:
        GROUP_RULES[name].rule(value)
    except ValueError as error:
        raise KafkaError(CODES["INVALID_CONFIG"], f"{name}={value[:80]!r}: {error}") from None


def _is_list(name: str) -> bool:
    """False, since no config of groups is a list; INVALID_CONFIG for an unknown one."""
    if name not in GROUP_RULES:
        raise KafkaError(CODES["INVALID_CONFIG"], f"unknown group config {name[:80]!r}")
    return False
