"""A cluster of real brokers in one thread, whose time, order, network, disks and ZooKeeper belong
to a seed: what fails once fails always, and can be looked at.

Reading order: :mod:`.run` (a seed from its beginning to its verdict), :mod:`.plan` (what the seed
decides), :mod:`.engine` (time, order, threads), :mod:`.network` and :mod:`.transport`,
:mod:`.zookeeper`, :mod:`.disk`, :mod:`.host` (one broker), :mod:`.caller`, :mod:`.producer` and
:mod:`.consumer` (clients), :mod:`.faults`, :mod:`.invariants`, :mod:`.shrink`.
``python -m tallymark.testing.simulation SEED`` replays one.
"""
