"""The nightly reconciliation: count again, judge, find what is lost.

Read :mod:`.run` (the story) first; the files follow it in order: survey, scan, counts, claims,
decide, search, evidence, ledger, outcome, report.
"""
