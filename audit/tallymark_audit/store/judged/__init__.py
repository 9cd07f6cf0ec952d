"""What was judged: verdicts and their revisions, alerts, and the edges over time.

Read :mod:`.verdicts` first; :mod:`.verdict_changes` says cheaply whether one has changed.
"""
