"""Counts and claims: written by collectors, read for verdicts.

Read :mod:`.counts` and :mod:`.claims` (how they are written) first, :mod:`.facts` and
:mod:`.carried` (how judging reads them) next, then :mod:`.archive` (settled windows, packed).
"""
