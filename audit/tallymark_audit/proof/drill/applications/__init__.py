"""The applications of a drill: producers and a consumer group, each a process with a book.

Read :mod:`.producer` first: what a book is, and how a value proves which message it is.
"""
