"""What runs beside requests: retention, flushing and compaction.

Read :mod:`.housekeeping` first. Then compaction: :mod:`.cleaner` chooses a log,
:mod:`.cleaner_turns` shares out time and memory, :mod:`.cleaner_process` does the work and
:mod:`.cleaner_offsets` remembers how far each log is clean.
"""
