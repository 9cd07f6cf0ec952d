"""The admin trail: the changes of administrators, as lines of a file and records of a topic.

Read :mod:`.entries` (the changes of a request, pure) first, then :mod:`.trail`, which writes
the lines and owns the file.
"""
