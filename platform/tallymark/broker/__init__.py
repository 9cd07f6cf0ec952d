"""The broker: one asyncio loop that owns every partition it leads.

Read in this order: :mod:`~tallymark.broker.metadata.image` (what the cluster looks like),
:mod:`~tallymark.broker.partitions.partition` (one owner per partition),
:mod:`~tallymark.broker.handlers` (one file per API, named by its number),
:mod:`~tallymark.broker.server` (how it starts and stops).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallymark.broker.settings.broker import BrokerSettings

__all__ = ["BrokerSettings"]

if not TYPE_CHECKING:  # with it type checkers would believe in every name

    def __getattr__(name: str) -> Any:
        # Loaded at first use: the rules of access entries alone need no settings.
        if name != "BrokerSettings":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tallymark.broker.settings.broker import BrokerSettings

        return BrokerSettings
