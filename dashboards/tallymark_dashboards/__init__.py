"""Web pages, JSON and live updates over the audit store; never a broker while rendering.

Read ``marks`` (how a state is shown), then ``view`` (rows of the store → rows of a page, pure),
``pages`` and ``api`` (the routes), ``live`` (server-sent events), ``app`` (put together).
"""
