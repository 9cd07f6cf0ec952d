"""Authentication, authorization and quotas: log-ins, users, access-control lists, limits.

Read :mod:`.authorizer` and :mod:`.acl_rules` (the decisions) first, then :mod:`.live` (the current
state), then :mod:`.sasl_logins`.
"""
