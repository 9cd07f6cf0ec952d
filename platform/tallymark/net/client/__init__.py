"""The client's side of a connection to a broker: pipelined requests, each with a deadline.

Reading order: :mod:`.connect` (dial, versions, log in), :mod:`.dialing`, :mod:`.connect_errors`,
:mod:`.versions`, :mod:`.authentication` and :mod:`.reauthentication`; then
:mod:`.broker_connection` (asyncio) around :mod:`.connection` (no I/O: requests in, bytes out,
responses back in order), :mod:`.in_flight` (what waits for its response) and :mod:`.flow_control`.
"""
