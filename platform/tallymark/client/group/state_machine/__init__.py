"""What a group member decides, pure: events in, actions out; and how a leader divides partitions.

Read :mod:`.machine` (its docstring draws the phases) and :mod:`.state` first, then :mod:`.events`
and :mod:`.actions`; :mod:`.assignors` is Kafka's three ways to divide.
"""
