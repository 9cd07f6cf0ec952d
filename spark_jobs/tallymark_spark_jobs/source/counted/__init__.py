"""Rows of what tasks count: ``mode=runs`` and ``mode=cells`` of the source.

:mod:`.rows` makes them, of what :mod:`tallymark_spark_jobs.counting` counts; their columns are in
:mod:`tallymark_spark_jobs.source.declared`.
"""
