"""The clients for coroutines; they use the same cores as the clients for threads.

Read :mod:`.producer` first, then :mod:`.consumer`, whose blocking calls :mod:`.executor` makes in a
thread.
"""
