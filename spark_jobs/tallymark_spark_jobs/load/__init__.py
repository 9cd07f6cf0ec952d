"""``tallymark load``: topics into tables of the lake, every message exactly once.

In the order of a run: :mod:`.planning` (which offsets, pure), :mod:`.landing` (a task reads a span
and writes Parquet files), :mod:`.run` (the driver: plan, land, check, one commit, again where
another writer was faster).
"""
