"""ZooKeeper in memory: its tree, sessions and watches, for tests without a server.

Reading order: :mod:`.tree` (nodes; pure), :mod:`.ensemble` (sessions and watches; pure),
:mod:`.client` (the port of :mod:`tallymark.coordination.session.client` on it), :mod:`.threaded`
(in threads and real time; the other one is in :mod:`tallymark.testing.simulation`). The tests of
``tests/coordination`` hold it to what the real server does.
"""
