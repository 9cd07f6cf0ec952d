"""Objects of the application or the audit that observe, change and drop what a producer sends.

Read :mod:`.producer_interceptor` (per batch, and :mod:`.transaction_stage` per transaction) and
:mod:`.queue_interceptor` (per record and stage); :mod:`.chain` and :mod:`.stages` call them.
"""
