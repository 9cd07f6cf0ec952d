"""Applies settings that were changed at run time."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from tallymark.broker.leadership.apply_image import Leadership
from tallymark.broker.leadership.replica_parts import ReplicaParts
from tallymark.broker.listening import Listeners
from tallymark.broker.maintenance.cleaner import Cleaner
from tallymark.broker.settings.dynamic import Dynamic
from tallymark.broker.settings.names import is_secret, kafka_name
from tallymark.broker.state import BrokerState
from tallymark.errors import UserError

log: Final = logging.getLogger(__name__)


class LiveSettings:
    """Applies settings that change at run time to the parts of the broker that use them. Belongs to
    the event loop; ``state`` has the result."""

    def __init__(
        self,
        state: BrokerState,
        listeners: Listeners,
        leadership: Leadership,
        cleaner: Cleaner,
        replicas: ReplicaParts,
    ) -> None:
        self._state = state
        self._listeners = listeners
        self._leadership = leadership
        self._cleaner = cleaner
        self._replicas = replicas

    def take(self, brokers: Mapping[str, Mapping[str, str]]) -> None:
        """Apply the stored settings ``brokers``, by broker id. If they do not fit the broker's own
        settings, this is logged and nothing changes."""
        state = self._state
        dynamic = Dynamic.of(brokers, state.static_settings.node_id)
        if dynamic == state.dynamic:
            return
        try:
            settings = dynamic.on(state.static_settings)
        except UserError as error:
            log.error("settings stay as they were: %s", error)
            return
        before, state.settings, state.dynamic = state.settings, settings, dynamic
        self._listeners.take_limits(settings)
        self._leadership.take_settings(settings)
        self._cleaner.settings = settings
        self._replicas.take_settings(settings)
        for name, value in settings:
            if value != getattr(before, name):
                shown = "(hidden)" if is_secret(name) else value
                log.info("setting changed at run time %s=%s", kafka_name(name), shown)
