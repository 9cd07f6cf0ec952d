"""The settings of a topic that replication asks for: its own where given, else the brokers'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_MIN_INSYNC: Final = "min.insync.replicas"
_UNCLEAN: Final = "unclean.leader.election.enable"


class TopicSettings(NamedTuple):
    """min.insync.replicas as configured, and unclean.leader.election.enable."""

    min_insync: int = 1
    unclean_allowed: bool = False


DEFAULTS: Final = TopicSettings()
"""What holds where neither the topic nor the brokers set anything."""


def settings_of(config: Mapping[str, str], defaults: TopicSettings = DEFAULTS) -> TopicSettings:
    """From the topic's own settings. A value that is no number, or neither true nor false, is the
    default: setting it is refused elsewhere."""
    if not config:
        return defaults
    least = config.get(_MIN_INSYNC, "")
    unclean = config.get(_UNCLEAN, "").lower()
    return TopicSettings(
        int(least) if least.isdecimal() and len(least) < 11 else defaults.min_insync,
        unclean == "true" if unclean in ("true", "false") else defaults.unclean_allowed,
    )
