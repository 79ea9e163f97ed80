"""The parameters of a PostgreSQL URL: those that its library knows, and the files they name."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from retrier.key_files import NOT_ASKED, is_encrypted

PARAMETERS = frozenset(
    [
        "application_name",
        "channel_binding",
        "client_encoding",
        "connect_timeout",
        "dbname",
        "fallback_application_name",
        "gssdelegation",
        "gssencmode",
        "gsslib",
        "host",
        "hostaddr",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "krbsrvname",
        "load_balance_hosts",
        "max_protocol_version",
        "min_protocol_version",
        "options",
        "passfile",
        "password",
        "port",
        "require_auth",
        "requirepeer",
        "service",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslcert",
        "sslcertmode",
        "sslcompression",
        "sslcrl",
        "sslcrldir",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslpassword",
        "sslrootcert",
        "sslsni",
        "target_session_attrs",
        "tcp_user_timeout",
        "user",
    ]
)
"""What libpq 17 takes in a URL. An unknown one would end each try to connect."""
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
SSL_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
SYSTEM = "system"
"""The value of sslrootcert that means the system's own authorities."""


def find_parameter_problem(url: str) -> str | None:
    """Return what is wrong with the parameters of a PostgreSQL URL, without showing a value."""
    parameters = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    unknown = sorted({name for name, _ in parameters} - PARAMETERS)
    if unknown:
        return f"has a parameter that PostgreSQL's library does not know: {', '.join(unknown)}"
    return _find_ssl_problem(parameters)


def _find_ssl_problem(parameters: Sequence[tuple[str, str]]) -> str | None:
    for name, value in parameters:
        if name == "sslmode" and value not in SSL_MODES:
            return f"has an sslmode that there is not: known are {', '.join(SSL_MODES)}"
        if name in SSL_FILES and value != SYSTEM and not Path(value).is_file():
            return f"names a file as {name} that does not exist"
        if name == "sslkey" and "sslpassword" not in dict(parameters) and is_encrypted(value):
            return f"names a file as {name} that {NOT_ASKED}: name the key as it is, or sslpassword"
    return None
