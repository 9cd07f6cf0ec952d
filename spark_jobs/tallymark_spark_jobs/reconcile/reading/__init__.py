"""All that a reconciliation reads of the clusters.

Read :mod:`.survey` first (which clusters and topics), then :mod:`.read_plan` (which offsets),
:mod:`.count_tasks` (the data, in Spark tasks), :mod:`.claims` and :mod:`.claim_tasks` (the audit
topics, small and large), :mod:`.damages` (what could not be read), :mod:`.evidence` (where missing
messages are).
"""
