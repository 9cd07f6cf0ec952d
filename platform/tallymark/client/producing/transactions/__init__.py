"""Transactions of a producer: all of its records and offsets are committed, or none.

Read :mod:`.machine` (the states, pure) and :mod:`.error_kinds` (what an error leaves possible)
first, then :mod:`.requests` and :mod:`.coordinator` (the wire), then :mod:`.manager`, which does
what the machine decides. :mod:`.pipeline` holds a partition's batches back until they may go.
"""
