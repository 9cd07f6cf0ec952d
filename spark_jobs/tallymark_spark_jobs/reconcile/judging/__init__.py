"""Judge what was counted and claimed, on the driver or in tasks.

Read :mod:`.decide` first (every window of every edge, from one set of facts), then
:mod:`.spark_facts` (the facts), :mod:`.groups` (a part of the topics and windows), :mod:`.in_tasks`
(all groups, in Spark tasks), :mod:`.judged_lines` (what comes back from there).
"""
