"""What was judged: verdicts and their revisions, alerts, and the edges over time.

Read :mod:`.verdicts` first, :mod:`.verdict_changes` next (whether any verdict has changed, asked
with one row), then :mod:`.graph` (which edges there were, and since when) and :mod:`.alerts`.
"""
