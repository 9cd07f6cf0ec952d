"""What runs on Spark: logs as rows of a data source, and the nightly reconciliation.

Read :mod:`.reconcile` first (the story, in order), :mod:`.source` next (how logs become rows);
:mod:`.cli` is the command, :mod:`.jobs` what spark-submit runs.
"""
