"""What a drill does and when, made from a seed before anything runs. Pure.

Read :mod:`.topology` first (the clusters, mirrors and proxies), then :mod:`.plan` (faults on the
wire, kills, pauses) and :mod:`.side_plan` (faults with a topic of their own).
"""
