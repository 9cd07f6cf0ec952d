"""TLS: contexts from PEM files, the handshake of an accepted connection, and a certificate's user.

Read :mod:`.contexts` first, then :mod:`.handshake` (bounded in number and time), then
:mod:`.principals` (from the name in a certificate to the name of a user).
"""
