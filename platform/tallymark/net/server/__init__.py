"""The broker's side of a connection: frames in, responses out in the order of their requests.

Reading order: :mod:`.handler` (what answers requests), :mod:`.responses` (what an answer may be),
:mod:`.outbox` (answers in order, onto the wire), :mod:`.connection` and its :mod:`.owner`,
:mod:`.server`, :mod:`.limits`.
"""
