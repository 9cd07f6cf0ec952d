"""The decisions of a group coordinator: members of groups and committed offsets. Pure: no I/O, no
clock, no random.

Kafka's classic group protocol as a state machine: ``decide_...(group, input, config, now)`` returns
the records to append and the responses to send, and the broker does both. Read in this order:

:mod:`~tallymark.groups.group`          what a group is, its states and deadlines
:mod:`~tallymark.groups.inputs`         what comes in and goes out, and :class:`Decision`
:mod:`~tallymark.groups.joining`        JoinGroup
:mod:`~tallymark.groups.rebalance`      the two phases of a rebalance
:mod:`~tallymark.groups.syncing`        SyncGroup
:mod:`~tallymark.groups.membership`     heartbeats, leaving, deadlines
:mod:`~tallymark.groups.offsets`        commits
:mod:`~tallymark.groups.deletion`       deletion and expiry
:mod:`~tallymark.groups.state`          what is kept: changed only by replaying records
:mod:`~tallymark.groups.records`        Kafka's record formats of ``__consumer_offsets``
"""
