"""Programs for spark-submit: each module takes the options of the command of its name.

:mod:`.reconcile` is ``tallymark reconcile``. Spark's master and resources are spark-submit's here,
and so are its logs.
"""
