"""SASL (RFC 4422): the mechanisms for both sides, and the steps on a broker. Only
:mod:`.oauth_keys` does I/O.

Reading order: :mod:`.mechanisms` (names, errors, credentials, an exchange), :mod:`.plain`,
:mod:`.scram`, :mod:`.oauthbearer`, :mod:`.server_session`; :mod:`.credential_text` and
:mod:`.oauth_urls` read settings. :mod:`.oauth_tokens` checks tokens, which web servers take too,
and :mod:`.oauth_keys` fetches the keys for that.
"""
