"""Reading topics for commands: from where to where, and the reading itself.

Reading order: :mod:`tallymark.shell.positions` (pure: what people write for a place in a log),
:mod:`.spans` (asked of a cluster: the offsets of each partition), :mod:`.reader` (their records),
:mod:`.groups` (as one of a group), :mod:`.options` (the options that consume, export, replay and
perf share), :mod:`.records` (how a message is shown).
"""
