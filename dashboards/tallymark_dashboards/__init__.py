"""Web pages, JSON and live updates over the audit store; no page asks a broker.

Read ``view`` (how things look, pure), then ``frame`` (what all pages share), ``pages``, ``live``
(server-sent events), ``app`` (joins them), ``server`` (the process).
"""
