"""Rolling, flushing and deleting: the policies, and the jobs that may run in another thread.

Read :mod:`.roll_policy` and :mod:`.retention` (decisions), then :mod:`.flush` and :mod:`.deletion`
(jobs).
"""
