"""Commands about who leads: ``tallymark elect`` and ``tallymark brokers drain``.

:mod:`.elect` holds elections, :mod:`.brokers` empties a broker; what that takes is decided in
:mod:`.draining` (pure).
"""
