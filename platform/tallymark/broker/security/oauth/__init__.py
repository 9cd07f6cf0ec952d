"""Log-ins by token (KIP-255, KIP-768).

Read :mod:`.tokens` (the check, pure) first, then :mod:`.keys` (fetches the keys), then
:mod:`.logins`.
"""
