"""HTTP to an address of this machine, without the certificates that a client reads each time."""

import ssl

import httpx

WITHOUT_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""By default each client reads all those of the machine: a fiftieth of a second, also for `http`."""


def client_at(
    base: str, *, timeout: float = 30, headers: dict[str, str] | None = None
) -> httpx.Client:
    """Return a client of the server at this address."""
    return httpx.Client(
        base_url=base, timeout=timeout, headers=headers, verify=WITHOUT_CERTIFICATES
    )
