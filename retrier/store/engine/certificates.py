"""Why libpq does not trust a server's certificate: it only says that it does not."""

import re
import socket
import ssl
import struct

HAS_EXPIRED = "certificate has expired"
_UNTRUSTED = "certificate verify failed"
_SERVER = re.compile(r'server at "([^"]+)"(?: \(([^)]+)\))?, port (\d+)')
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_YES = b"S"
_EXPIRED = 10
"""OpenSSL's code for a certificate whose time is over."""


def tell_expired(words: str, authorities: str | None, timeout: float) -> str:
    """Return libpq's words, and that the certificate has expired if that is the reason.

    One more handshake finds it out. `authorities` is a file; None: those of the machine.
    """
    server = _SERVER.search(words)
    if _UNTRUSTED not in words or server is None:
        return words
    place = (server[2] or server[1], int(server[3]))
    return f"{words} ({HAS_EXPIRED})" if _has_expired(place, authorities, timeout) else words


def _has_expired(place: tuple[str, int], authorities: str | None, timeout: float) -> bool:
    try:
        context = ssl.create_default_context(cafile=authorities)
        context.check_hostname = False
        with socket.create_connection(place, timeout) as line:
            line.sendall(_SSL_REQUEST)
            if line.recv(1) == _YES:
                context.wrap_socket(line).close()
    except ssl.SSLCertVerificationError as error:
        return error.verify_code == _EXPIRED
    except OSError:
        return False
    return False
