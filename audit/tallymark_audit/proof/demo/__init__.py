"""``make demo``: the main job end to end on real input, with a real fault in the middle.

Read ``run`` for the story, step by step. ``fault`` does to a dead broker's segment what a power
failure does; ``truth`` seals what was cut off and opens it only once the verdict is in.
"""
