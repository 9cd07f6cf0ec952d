"""Background work of a broker: retention, flushing, checkpoints and compaction.

Read :mod:`.housekeeping` first. Then compaction: :mod:`.cleaner` chooses a log,
:mod:`.cleaner_turns` divides time and memory, :mod:`.cleaner_process` does the work and
:mod:`.cleaner_offsets` stores up to which offset each log is clean.
"""
