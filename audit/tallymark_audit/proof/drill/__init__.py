"""``tallymark audit drill``: the proof that the audit is right.

Real processes, real faults made outside of them under a seed, and a comparison of what was found
with what was done, message by message. Read in this order: :mod:`.run` (the story) →
``planning`` (what happens when, from a seed) → ``applications`` and ``running`` (the processes) →
``faults`` → ``truth`` (what really happened) → ``findings`` (what the audit says) → ``scoring``.
:mod:`.clean` is a drill without faults.
"""
