"""What was judged: verdicts and their revisions, sums and incidents, alerts, the edges over time.

Read :mod:`.verdicts` first, :mod:`.effective` (which of two verdicts on a window holds) and
:mod:`.sums` (the sums and incidents that follow from them, in the same transaction) next, then
:mod:`.verdict_changes` (whether any verdict has changed, asked with one row), :mod:`.graph` (which
edges there were, and since when) and :mod:`.alerts`.
"""
