"""The user of a client, what it may do, and how much: log-ins, users, access entries, quotas.

Read :mod:`.authorizer` and :mod:`.acl_rules` (the decisions) first, then :mod:`.live` (what is in
force), then :mod:`.sasl_logins`.
"""
