"""Many batches' records as tables of numbers, read by loops that numba compiles (extra ``fast``).

Read :mod:`.layout` (the tables), :mod:`.batch_loop` and :mod:`.record_loop`, which stand on
:mod:`.primitives`; :mod:`.kernel` and :mod:`.unpack` have what others call.
"""
