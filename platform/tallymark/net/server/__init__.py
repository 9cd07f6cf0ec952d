"""The broker's side of a connection: frames in, responses out in the order of their requests.

Reading order: :mod:`.handler` (answers requests), :mod:`.responses` (the types of an answer),
:mod:`.outbox` (writes answers in order), :mod:`.connection` and its :mod:`.owner`,
:mod:`.server`, :mod:`.limits`.
"""
