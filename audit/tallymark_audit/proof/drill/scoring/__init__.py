"""The score of a drill: what the audit found compared with what it had to find.

Read :mod:`.compare` first, then :mod:`.side_scores` with :mod:`.scorer` (faults with a topic of
their own), then :mod:`.report` (the tables).
"""
