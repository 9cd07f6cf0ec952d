"""``tallymark up`` and what looks at a whole deployment.

Read :mod:`.up` first, then :mod:`.status` and :mod:`.doctor`.
"""
