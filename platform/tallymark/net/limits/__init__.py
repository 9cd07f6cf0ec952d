"""What one peer, and all peers together, may take from a listener. Every server here uses it.

Reading order: :mod:`.accept_queue`, :mod:`.connection_quota`, :mod:`.pending_handshakes`,
:mod:`.failed_login_delay`, :mod:`.request_memory`, :mod:`.log_rate` (log lines that a peer can
cause).
"""
