"""``tallymark audit drill``: the proof that the audit is right.

Real processes, real faults made outside of them under a seed, and a comparison of what was found
with what was done, message by message. Read in this order:

``run`` (the story) → ``plan`` and ``plan_beside`` (what is done when, from a seed) → ``topology``,
``fleet`` and ``stage`` (the processes) → ``deeds`` and ``deeds_beside`` (what is done to them) →
the faults: ``faults``, ``meddler`` and ``proxy`` (on the wire; ``batches`` and ``redirect`` are its
pure parts), ``surgery`` and ``at_rest`` (in a dead broker's log), ``producer`` (clocks) →
``lost_journals`` and ``second_looks`` (what a person would do) → the truth: ``seal`` (what was
done), ``truth`` and ``whole_truth`` (what is in the logs), ``expected`` (what the audit has to say
of it) → ``found`` (what it says), ``sightings`` (when it first did), ``taken_back`` (what it no
longer says) → ``compare``, ``beside``, ``scoring``, ``report``. ``clean`` is without faults.
"""
