"""What a mirror reports about itself: lag, metrics, a line in the log, the status command.

Read :mod:`.reports` (to observers) and :mod:`.lag`; :mod:`.metrics`, :mod:`.progress_log` and
:mod:`.status` show the lag.
"""
