"""Commands about topics, groups, users and entries of access-control lists.

One file for each command; :mod:`.topics` and :mod:`.groups` are typical.
"""
