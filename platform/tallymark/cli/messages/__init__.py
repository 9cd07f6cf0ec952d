"""Commands that write and read messages.

Read :mod:`.produce` and :mod:`.consume` first; what they are made of stands in :mod:`.writing` and
:mod:`.reading`.
"""
