"""The target's side: batches sent to the leaders of their partitions, each under a producer id.

Read :mod:`.target`, then :mod:`.batch_sender` (the loop) and :mod:`.queue` (the order of a
partition). :mod:`.producer_ids` gets the producer ids and :mod:`.loop_guard` announces them.
"""
