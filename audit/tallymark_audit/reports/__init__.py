"""What reporters say: a producer's books and how they are published, mirrors, the events' format.

:mod:`.interceptor` is what a producer calls, :mod:`.producer_run` one run of it, :mod:`.tally` its
books, :mod:`.events` what leaves.
"""
