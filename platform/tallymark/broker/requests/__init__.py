"""What the handlers of several APIs share: reading a request, serving it, writing the answer.

Read :mod:`.registry` (what a handler is) first, then :mod:`.produce` and :mod:`.fetch_parked`,
which serve the two APIs that matter most.
"""
