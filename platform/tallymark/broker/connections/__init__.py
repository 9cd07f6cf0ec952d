"""Connections that this broker opens to other brokers: to copy from leaders, to ask where logs end,
to see whether a broker is still there.

Reading order: :mod:`.port` (what callers use), :mod:`.outgoing` (how to connect, from the
settings), :mod:`.sockets` (over the event loop's connections; the client's side of
:mod:`tallymark.net.client` does the work).
:class:`tallymark.testing.memory_connections.MemoryConnections` is the twin of tests.
"""
