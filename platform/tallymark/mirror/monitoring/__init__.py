"""What a mirror reports about itself: lag, metrics, a line in the log, the status command.

Read :mod:`.lag` first; :mod:`.metrics`, :mod:`.progress_log` and :mod:`.status` show it.
"""
