"""The command line: ``tallymark COMMAND ...``.

``main`` collects the commands; each part of Tallymark adds its own by entry point. ``commands``
finds them by their names, ``completion`` completes them in a shell. One room for each kind of
command: ``admin``, ``messages``, ``servers``, ``stack``. What all commands share is in
``tallymark.shell``.
"""
