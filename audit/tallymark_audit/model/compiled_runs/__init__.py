"""The runs of a whole fetch, cut by loops that numba compiles (extra ``fast``).

Read :mod:`.cutter` first, which returns what :mod:`tallymark_audit.model.record_runs` returns, the
reference. Then :mod:`.layout` (the tables) and :mod:`.run_loop`. Spark counts with code of its own.
"""
