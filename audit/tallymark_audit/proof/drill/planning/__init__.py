"""What a drill does and when, made from a seed. Pure.

Read :mod:`.topology` first (the clusters, mirrors and proxies), then :mod:`.plan` and
:mod:`.side_plan`.
"""
