"""The commands of the Spark jobs: a file each, with its options.

:mod:`.reconcile` is ``tallymark reconcile``. The files of :mod:`tallymark_spark_jobs.jobs` run the
same commands under spark-submit.
"""

from tallymark_spark_jobs.cli.reconcile import reconcile

__all__ = ["reconcile"]
