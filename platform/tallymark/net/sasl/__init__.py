"""SASL (RFC 4422) without I/O: the mechanisms for both sides, and the steps on a broker.

Reading order: :mod:`.mechanisms` (names, errors, credentials, an exchange), :mod:`.plain`,
:mod:`.scram`, :mod:`.oauthbearer`, :mod:`.server_session`; :mod:`.credential_text` and
:mod:`.oauth_urls` read settings.
"""
