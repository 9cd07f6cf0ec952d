"""Settings of a broker that change while it runs (KIP-226). Pure.

Values for the one broker come first, then values for all brokers, then the broker's own settings.
They are stored with users and quotas (:mod:`tallymark.broker.security.store`), so they survive a
restart.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_alter import Change, edited, present
from tallymark.broker.settings.config_types import shown
from tallymark.broker.settings.names import kafka_name
from tallymark.broker.settings.properties_file import WITHOUT_EFFECT
from tallymark.broker.settings.text import parse
from tallymark.errors import CODES, KafkaError, UserError

log: Final = logging.getLogger(__name__)

_FIELDS: Final = (
    "compression_gzip_level",
    "compression_type",
    "compression_zstd_level",
    "follower_replication_throttled_rate",
    "leader_replication_throttled_rate",
    "log_cleaner_backoff_ms",
    "log_cleaner_dedupe_buffer_size",
    "log_cleaner_delete_retention_ms",
    "log_cleaner_io_max_bytes_per_second",
    "log_cleaner_max_compaction_lag_ms",
    "log_cleaner_min_cleanable_ratio",
    "log_cleaner_min_compaction_lag_ms",
    "log_cleanup_policy",
    "log_flush_before_expose",
    "log_flush_interval_messages",
    "log_flush_interval_ms",
    "log_index_interval_bytes",
    "log_message_timestamp_after_max_ms",
    "log_message_timestamp_before_max_ms",
    "log_message_timestamp_type",
    "log_retention_bytes",
    "log_retention_ms",
    "log_roll_ms",
    "log_segment_bytes",
    "log_segment_delete_delay_ms",
    "max_connections",
    "max_connections_per_ip",
    "message_max_bytes",
    "min_insync_replicas",
    "producer_id_expiration_ms",
)
DYNAMIC: Final[Mapping[str, str]] = {kafka_name(name): name for name in _FIELDS}
"""Settings that can change while the broker runs -> their fields: Kafka's dynamic settings that
this broker has, and ``log.flush.before.expose``."""
_LISTS: Final = ("log.cleanup.policy",)

DEFAULT_NAME: Final = "<default>"
"""The name for every user, client or broker without a value of its own."""


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The settings changed at run time, by Kafka's names: for one broker, and for all of them."""

    own: Mapping[str, str] = field(default_factory=dict[str, str])
    everybody: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, brokers: Mapping[str, Mapping[str, str]], node_id: int) -> Dynamic:
        """From the stored settings ``brokers``. Unknown names and invalid values are logged and
        left out: another kind of broker may have written them."""
        own, everybody = brokers.get(str(node_id), {}), brokers.get(DEFAULT_NAME, {})
        return cls(_understood(own), _understood(everybody))

    def on(self, static: BrokerSettings) -> BrokerSettings:
        """The settings in force: ``static`` with these changes."""
        values = {**self.everybody, **self.own}
        if not values:
            return static
        given = {kafka_name(name): getattr(static, name) for name in static.model_fields_set}
        return parse({**given, **values})


def changed_broker(
    settings: BrokerSettings, current: Mapping[str, str], changes: Sequence[Change]
) -> dict[str, str]:
    """The values after ``changes``; ``settings`` are those in force. Raises INVALID_REQUEST for a
    setting that needs a restart or a wrong value, as Kafka does, INVALID_CONFIG for an unknown one.
    """

    def inherited(name: str) -> str:
        return shown(getattr(settings, DYNAMIC[name]))

    after = edited(current, changes, _is_list, inherited)
    check({name: after[name] for name, _, _ in changes if name in after})
    return after


def replaced_broker(configs: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """The values after a request that sets exactly ``configs``. Raises as
    :func:`changed_broker`."""
    values = {name: present(name, value) for name, value in configs}
    check(values)
    return values


def check(values: Mapping[str, str]) -> None:
    """Raise an error for an unknown name or a wrong value."""
    for name in values:
        _is_list(name)
        if name in WITHOUT_EFFECT:
            why = f"{name} has no effect here: {WITHOUT_EFFECT[name]}"
            raise KafkaError(CODES["INVALID_REQUEST"], why)
    try:
        parse(values)
    except UserError as error:
        raise KafkaError(CODES["INVALID_REQUEST"], error.what) from None


def _is_list(name: str) -> bool:
    """Whether the setting is a list. Raises for one that cannot be changed at run time. One that
    has no effect here is as one that was never set: Kafka's tools delete such ones."""
    if name in DYNAMIC or name in WITHOUT_EFFECT:
        return name in _LISTS
    known = [kafka_name(each) for each in BrokerSettings.model_fields]
    if name in known:
        raise KafkaError(
            CODES["INVALID_REQUEST"],
            f"{name} cannot be changed at run time: change the broker's settings, restart it",
        )
    near = difflib.get_close_matches(name[:80], known, n=1, cutoff=0.5)
    hint = f", did you mean {near[0]}?" if near else ""
    raise KafkaError(CODES["INVALID_CONFIG"], f"unknown broker config {name[:80]!r}{hint}")


def _understood(values: Mapping[str, str]) -> dict[str, str]:
    known: dict[str, str] = {}
    for name, value in values.items():
        try:
            check({name: value})
        except KafkaError as error:
            log.warning("what was set at run time is ignored: %s", error.context)
        else:
            known[name] = value
    return known
