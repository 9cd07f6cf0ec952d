"""Limits for one peer, and for all peers together, at a listener. Every server here uses them.

Reading order: :mod:`.accept_queue`, :mod:`.connection_quota`, :mod:`.pending_handshakes`,
:mod:`.failed_login_delay`, :mod:`.request_memory`, :mod:`.log_rate` (log lines that a peer can
cause).
"""
