"""The tables of the lake: what one commit holds, and the formats that can keep it.

:mod:`~tallymark_spark_jobs.lake.table` has the shapes and the port :class:`LakeTable`; it imports
no table format, so that tasks and short commands pay nothing for it.
"""
