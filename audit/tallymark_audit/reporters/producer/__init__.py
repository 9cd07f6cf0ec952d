"""What a producer reports.

Read :mod:`.interceptor` (what the producer calls) first, then :mod:`.producer_run` (one run of it).
"""
