"""The admin trail: what administrators changed, as lines of a file and records of a topic.

Read :mod:`.entries` (what a request changes, pure) first, then :mod:`.trail`, which writes
the lines and owns the file.
"""
