"""Transactions, for administrators (KIP-664): who has one open, which of them hang, and their end.

Read :mod:`.hanging` first: what a partition and a coordinator say of the same transaction, and
what follows (pure). :mod:`.describing` asks coordinators, :mod:`.finding` compares their answers
with those of partitions, and ends what hangs.
"""
