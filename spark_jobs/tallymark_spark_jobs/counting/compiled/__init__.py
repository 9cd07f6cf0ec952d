"""Strips, cut by a loop that numba compiles (extra ``fast``).

Read :mod:`.strip_loop`, then :mod:`.kernel`, which calls it;
:func:`tallymark_spark_jobs.counting.strips.cut` says what comes out. The audit's collector counts
by loops of its own.
"""
