"""Group decisions: what is committed where. Pure: no I/O, no clock, no random.

:mod:`~tallymark.groups.records` holds Kafka's record formats of ``__consumer_offsets``,
:mod:`~tallymark.groups.offsets` decides commits and replays them, and
:mod:`~tallymark.groups.placement` says which partition owns a group.
"""
