"""The broker: one asyncio loop that owns every partition it leads.

Read in this order: :mod:`~tallymark.broker.metadata.image` (the state of the cluster),
:mod:`~tallymark.broker.partitions.partition` (one owner per partition),
:mod:`~tallymark.broker.handlers` (one file per API, named by its number),
:mod:`~tallymark.broker.server` (start and stop).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallymark.broker.settings.broker import BrokerSettings

__all__ = ["BrokerSettings"]

if not TYPE_CHECKING:  # with __getattr__, type checkers would accept every name

    def __getattr__(name: str) -> Any:
        # Loaded at first use: code that needs only the rules of ACLs must not load the settings.
        if name != "BrokerSettings":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tallymark.broker.settings.broker import BrokerSettings

        return BrokerSettings
