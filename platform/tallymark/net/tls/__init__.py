"""TLS: contexts from PEM files, the handshake of an accepted connection, and a certificate's user.

Reading order: :mod:`.contexts`, :mod:`.handshake`, :mod:`.principals`.
"""
