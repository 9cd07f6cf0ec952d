"""Commands about topics, groups, transactions, users, ACL entries and quotas.

One file for each command; read :mod:`.topics` and :mod:`.groups` first, they are typical. What
several commands share has a longer name: ``topic_*`` for topics, ``group_*`` and ``lag_rows`` for
groups, ``security_*`` for users and ACL entries.
"""
