"""Code that the handlers of several APIs share, and the parts of a Fetch.

Read :mod:`.registry` (the registered handlers) and :mod:`.decode` first, then :mod:`.fetch_round`
and :mod:`.fetch_response`; the others serve groups, topics and configs.
"""
