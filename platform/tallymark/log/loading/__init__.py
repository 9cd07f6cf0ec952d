"""Opening a log: its files are found, recovered where needed, and loaded.

Read :mod:`.log_loader`, then :mod:`.segment_files` (the folder) and :mod:`.recovery` (after a
crash).
"""
