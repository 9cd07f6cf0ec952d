"""The client's side of a connection to a broker: pipelined requests, each with a deadline.

Reading order: :mod:`.connection` (no I/O: requests in, bytes out, responses back in order),
:mod:`.versions`, :mod:`.dialing` and :mod:`.connect_errors`, :mod:`.broker_connection` (asyncio
around them), :mod:`.authentication` and :mod:`.reauthentication`.
"""
