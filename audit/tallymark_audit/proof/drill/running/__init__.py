"""The processes of a drill, and what is done to them while they run.

Read :mod:`.processes` and :mod:`.stage` first, then :mod:`.actions` and :mod:`.side_actions` (what
the plan says is done); :mod:`.follow_up` is what a person does afterwards.
"""
