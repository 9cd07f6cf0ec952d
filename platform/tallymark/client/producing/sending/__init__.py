"""Sealed batches go to the leaders of their partitions; all of it runs in the I/O thread.

Read :mod:`.sender` (which batches) and :mod:`.dispatcher` (the requests) first, then
:mod:`.answers` (what a response means for a batch) and :mod:`.batch_completion` (the end of a
batch).
"""
