"""Records become batches, and the batches of a partition keep their order.

Read :mod:`.accumulator` (where a record goes in), :mod:`.partition_queue` and :mod:`.batch` (what
holds it) first, then :mod:`.pipeline` (which batch of a partition may be sent next).
"""
