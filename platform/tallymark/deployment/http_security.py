"""The shape of the settings that secure HTTP: TLS, log-ins and names of every server of ours."""

from __future__ import annotations

from tallymark.deployment.parts import Part


class HttpSecurity(Part):
    """How everything that speaks HTTP is secured: the registry, the dashboards with the API, and
    the metrics of collectors and mirrors."""

    ssl_keystore_location: str = ""
    """PEM file with private key and certificate chain: with it they speak TLS."""
    ssl_key_password_file: str = ""
    """File whose first line is the password of that key, if it is encrypted."""
    users_file: str = ""
    """The users that may log in (HTTP Basic): the ``security.json`` that ``tallymark users add NAME
    --data FOLDER`` writes. With it every request needs a log-in."""
    ssl_truststore_location: str = ""
    """PEM file of the authorities that our own clients of the registry trust; empty: the
    system's."""
    username: str = ""
    """The user name of our own clients at the registry."""
    password_file: str = ""
    """File whose first line is the password."""
    password_env: str = ""
    """Or the name of an environment variable that holds it."""
    token_file: str = ""
    """Where there is no ``username``: file whose first line is the bearer token by which our own
    clients log in at the registry."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, beside those that are configured and advertised, by which browsers may come: such of a
    proxy in front, for example."""
