"""Commands that write and read messages.

Read :mod:`.produce` and :mod:`.consume` first; what they are made of is in :mod:`.writing` and
:mod:`.reading`.
"""
