"""Lets Spark find the data source by itself.

Spark looks through the top-level modules whose names begin with ``pyspark_`` for a
``DefaultSource``: with this package installed, ``spark.read.format("tallymark")`` needs no
registration.
"""

from tallymark_spark_jobs.source.source import TallymarkSource as DefaultSource

__all__ = ["DefaultSource"]
