"""Where the broker's file is, read from its URL."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from retrier.errors import ConfigurationError

SCHEME = "embedded"
NOWHERE = frozenset({None, "localhost"})
"""Hosts that name no other machine: Kombu fills `localhost` in when it writes a URL."""


def parse_address(url: str) -> Path:
    """Read `embedded:///PATH`, percent-encoded: PATH is relative, or absolute with a fourth slash.

    Raises ConfigurationError.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() != SCHEME:
        raise ConfigurationError([f"broker.url must begin with {SCHEME}:///"])
    try:
        # Taken apart as Kombu does it (kombu.utils.url), or two programs would use two files.
        parts = urlsplit(f"http://{rest}")
    except ValueError as error:
        raise ConfigurationError([f"broker.url is not a URL: {error}"]) from error
    if parts.query or parts.fragment:
        raise ConfigurationError(["broker.url must end after the path: no ? and no # in it"])
    return find_file(parts.hostname, unquote(parts.path[1:]))


def find_file(host: str | None, path: str | None) -> Path:
    """Return the absolute path of the file that these parts of a URL name.

    Raises ConfigurationError.
    """
    if host not in NOWHERE:
        raise ConfigurationError(
            [f"broker.url names the host {host!r}; a path begins after three slashes: {SCHEME}:///"]
        )
    # Kombu puts a slash where there is no path at all.
    if not path or path.endswith("/"):
        raise ConfigurationError([f"broker.url must name a file: {SCHEME}:///PATH"])
    return Path(path).absolute()
