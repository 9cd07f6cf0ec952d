"""The trail of administrators: what they changed, as lines of a file and records of a topic.

Read :mod:`.entries` (what a request changes, pure) first, then :mod:`.trail`.
"""
