"""What one run of a consumer has processed: the books from which its reports are made. Pure.

Read :mod:`.processing` first, which has all three: :mod:`.in_flight` (records that were handed out
and are not processed), :mod:`.ack_batcher` (messages that an application acknowledges one by one)
and :mod:`.books` (what was processed). :mod:`.messages` reads the messages of any client.
"""
