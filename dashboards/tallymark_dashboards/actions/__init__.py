"""What operators may change: accept a window, retire a reporter, pause alerts, repair.

Read ``guard`` first (what is refused, and what the refusal says), then ``forms`` (a page that asks,
and the reading of what it sends), ``decide`` and ``repair``; ``desk`` runs repairs in the
background. A GET only shows a form. A POST changes something, and leads on to a page.
"""
