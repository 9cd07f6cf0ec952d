"""Web pages, JSON and live updates over the audit store; no page asks a broker.

Read ``marks`` (how a state is shown), then ``view`` (rows of the store → rows of a page, pure),
``pages`` and ``api`` (the routes), ``live`` (server-sent events), ``app`` (joins them).
"""
