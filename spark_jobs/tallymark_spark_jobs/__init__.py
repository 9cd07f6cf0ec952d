"""What runs on Spark: logs as rows of a data source, and the nightly reconciliation.

Read :mod:`.reconcile` first (the story, in order), :mod:`.source` next (how logs become rows);
:mod:`.cli` has the commands, :mod:`.jobs` what spark-submit runs; :mod:`.engine` opens sessions.
"""
