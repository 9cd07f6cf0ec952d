"""The Spark data source: logs as rows.

Read :mod:`.source` first, then :mod:`.planning` (on the driver) and :mod:`.log_reader` (on
executors).
"""
