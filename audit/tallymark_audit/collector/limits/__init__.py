"""Limits on what a hostile or broken producer can make the collector keep.

Read :mod:`.openings` first (the budget of a partition for new cells), :mod:`.opener` next (spends
it), then :mod:`.report_bound` (the same for monitoring events) and :mod:`.window_bound`.
"""
