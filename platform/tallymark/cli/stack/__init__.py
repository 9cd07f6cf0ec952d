"""``tallymark up``, and the commands that look at a whole deployment.

Read :mod:`.up` first (it starts everything; :mod:`.down` ends it), then :mod:`.status` (what runs)
and :mod:`.doctor` (what is wrong on this machine). :mod:`.stacks` finds the stacks that run.
"""
