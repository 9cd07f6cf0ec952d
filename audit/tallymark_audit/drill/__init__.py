"""``tallymark audit drill``: the proof that the audit is right.

Real processes, real faults made outside of them under a seed, and a comparison of what was found
with what was done, message by message. Read in this order:

``run`` (the story) → ``plan`` (what is done when, from a seed) → ``topology``, ``fleet`` and
``stage`` (the processes) → ``deeds`` (what is done to them) → the faults: ``faults``, ``meddler``
and ``proxy`` (on the wire; ``batches`` and ``redirect`` are its pure parts), ``surgery`` (in a dead
broker's log), ``producer`` (clocks) → the truth: ``seal`` (what was done), ``truth`` (what is in
the logs), ``expected`` (what the audit has to say of it) → ``found`` (what it says) and
``sightings`` (when it first did) → ``compare`` and ``report``. ``clean`` is a drill without faults.
"""
