"""``--command-config FILE``: security in the form of Kafka's ``client.properties``.

The file that Kafka's own tools take works here as it is, except for Java's keystores, in place of
which it names PEM files (``ssl.truststore.type=PEM``)::

    security.protocol=SASL_SSL
    ssl.truststore.location=/etc/tallymark/ca.pem
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
        username="ops" password="...";
"""

from __future__ import annotations

from pathlib import Path

from tallymark.client.core.security.properties import security_of_properties
from tallymark.client.core.security.security import SecuritySettings
from tallymark.errors import UserError
from tallymark.java_properties import pairs


def read_command_config(path: str) -> SecuritySettings:
    """The security settings of the file. Other settings in it (timeouts, names) are ignored:
    commands have their own. Raises UserError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UserError(f"cannot read {path}: {why}", "mend --command-config") from error
    return security_of_properties(pairs(text, path, _dotted), path)


def _dotted(name: str) -> str:
    """``security_protocol`` is read as ``security.protocol``, as in a broker's file."""
    return name.replace("_", ".")
