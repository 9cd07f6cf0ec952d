"""The broker's side of a connection: frames in, responses out in the order of their requests.

Reading order: :mod:`.handler` (what answers requests), :mod:`.responses` (what an answer may be,
and the writer that puts it on the wire), :mod:`.connection`, :mod:`.server`, :mod:`.limits`.
"""
