"""The collector: counts what lies in a cluster, alone or with others, and judges what ends there.

Read :mod:`.collector` first (the round), :mod:`.fetching` next, then :mod:`.ledger` (the store's
side) and :mod:`.corrections` (cut logs, holes, second counts), and the rooms :mod:`.counting`
(fetches to cells), :mod:`.partitions` (which are ours), :mod:`.limits` (what forged stamps may
cost), :mod:`.recounting` (what is in doubt) and :mod:`.judging`. :mod:`.schedule` runs all of this,
each at its own pace.
"""
