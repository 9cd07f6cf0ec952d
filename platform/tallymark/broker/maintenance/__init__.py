"""What runs beside requests: retention, flushing and compaction.

Read :mod:`.housekeeping` first, then :mod:`.cleaner`, whose work :mod:`.cleaner_process` does.
"""
