"""Counting: from the records of one partition to the cells and their runs of sequences.

Read :mod:`.tally` first (what a task reports of a cell, and how such parts are put together), then
:mod:`.counter`, which makes it. No Spark here, and no code of the audit's collector: the two count
independently, so each finds the other's faults.
"""
