"""The engine below the jobs: sessions, settings, errors in one line.

Read :mod:`.session` first: how a session is opened, and whose settings win. Nothing here knows what
a job does.
"""
