"""Opening a log: finds its files, recovers them where needed, and loads them.

Read :mod:`.log_loader`, then :mod:`.segment_files` (the folder) and :mod:`.recovery` (after a
crash).
"""
