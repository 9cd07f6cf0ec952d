"""What a simulation runs on: one event loop whose time, order and threads belong to the seed.

Reading order: :mod:`.chances` (the seed), :mod:`.process` (what lives and dies together),
:mod:`.loop` (time and order), :mod:`.jobs` and :mod:`.threads` (what stands for threads),
:mod:`.sealed` (what is refused).
"""
