"""What the drill and the demo share: processes, narration, the power failure.

Read :mod:`.commands` first.
"""
