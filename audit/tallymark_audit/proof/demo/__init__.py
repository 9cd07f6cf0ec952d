"""``make demo``: the main job end to end on real input, with a real fault in the middle.

Read :mod:`.run` first, the story step by step. :mod:`.truth` seals what was cut off a dead broker's
segment, and opens it only after the verdict is in; :mod:`.result` reads what the reconciliation
found.
"""
