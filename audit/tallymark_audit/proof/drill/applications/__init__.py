"""The applications of a drill: producers and a consumer group, each a process.

Each writes a book: what was acknowledged to it, or what it was given, one line for each event.
Read :mod:`.producer` first, then :mod:`.consumer`; :mod:`.bulk` sends without a book.
"""
