"""The broker: one asyncio loop that owns every partition it leads.

Read in this order: :mod:`~tallymark.broker.image` (what the cluster looks like),
:mod:`~tallymark.broker.partition` (one owner per partition), :mod:`~tallymark.broker.handlers`
(one file per API, named by its number), :mod:`~tallymark.broker.server` (how it starts and stops).
"""

from tallymark.broker.settings import BrokerSettings

__all__ = ["BrokerSettings"]
