"""What the handlers of several APIs share, and the parts of a Fetch.

Read :mod:`.registry` (what a handler is) and :mod:`.decode` first, then :mod:`.fetch_round` and
:mod:`.fetch_response`; the others serve groups, topics and configs.
"""
