"""What a producer reports: which records were accepted, and what became of them.

Read :mod:`.interceptor` first (what the producer calls), then :mod:`.producer_run` (the books of
one run, and when they are published) and :mod:`.run_transaction` (what waits for the end of a
transaction).
"""
