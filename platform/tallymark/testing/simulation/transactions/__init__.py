"""Transactions on simulated brokers: producers, a copier, and what must hold.

:mod:`.cluster` (requests that arrive late), :mod:`.producer` and :mod:`.copier` (our client's own
transactions, with a sender of the simulation), :mod:`.judging` (the invariants by name),
:mod:`.world` (a run).
"""
