"""Publishing: from ``send()`` to the acknowledgement.

Read :mod:`.producer` (what the application calls), then the room :mod:`.batches` (records become
batches, in the thread that sends), then the room :mod:`.sending` (batches become requests, in the
I/O thread). The room :mod:`.interceptors` holds what observes both, the room :mod:`.transactions`
what a producer with a transactional id does besides.
"""
