"""Replication, decided: pure functions and state machines over the shapes of ``model``.

What the cluster agreed on is a :class:`~.model.PartitionState` in a node that changes only by
compare-and-set; what brokers say of themselves is a :class:`~.model.BrokerView`. Nothing here does
I/O, reads a clock or draws a random number: ``now_ms`` is an argument. Read ``model`` first.

The controller's part: ``in_sync`` (who may vote), ``election`` (who leads next), ``planner`` (which
changes the picture calls for), ``changes`` (how they are applied), ``balance`` (preferred leaders),
``reassignment`` (moves of replicas), ``placement`` (new replicas). A broker's start is in
``registration``, what all brokers of a cluster understand in ``features``.

A leader: ``progress``, ``isr_change``, ``leading``, ``acks``. A follower: ``truncation``,
``following``, ``throttle``.
"""
