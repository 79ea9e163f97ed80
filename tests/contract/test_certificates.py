"""Certificates whose time is over, theirs and ours, and keys that are encrypted: what is said.

The servers are only the beginning of one: who shakes hands with them fails before it matters.
"""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import pytest
from sqlalchemy import text

from retrier.errors import (
    AccessRefused,
    BrokerUnavailable,
    ConfigurationError,
    DatabaseRefused,
    DatabaseUnavailable,
)
from retrier.settings import load_settings
from retrier.transport.rabbitmq.address import parse_address
from retrier.transport.rabbitmq.connection import BrokerConnection
from retrier.transport.transports import Tls
from tests.support.certificates import Certificates, make_certificates
from tests.support.databases import open_database

PATIENCE = 10.0
SSL_REQUEST = 8
"""Bytes with which a client of PostgreSQL asks for TLS."""
Greet = Callable[[socket.socket], object]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def agree_to_tls(line: socket.socket) -> None:
    """Answer what PostgreSQL's clients ask before the handshake."""
    line.recv(SSL_REQUEST)
    line.sendall(b"S")


def begin_at_once(_line: socket.socket) -> None:
    """Say nothing: a broker begins with the handshake."""


@contextmanager
def serving(certificates: Certificates, certificate: str, greet: Greet) -> Iterator[int]:
    """Give the port of a server that shows this certificate and asks for one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.folder / certificate, certificates.folder / "server.key")
    context.load_verify_locations(certificates.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    line, _ = server.accept()
                    line.settimeout(PATIENCE)
                    with line, line.dup() as spare, suppress(OSError):
                        greet(line)
                        with suppress(ssl.SSLError):
                            context.wrap_socket(line, server_side=True).close()
                        # What is unread at the end would make TCP drop what we have said of it.
                        while spare.recv(1024):
                            pass

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


def dial_broker(port: int, trust: Tls) -> BrokerUnavailable:
    address = parse_address(f"amqps://localhost:{port}//", trust)
    with pytest.raises(BrokerUnavailable) as refused:
        BrokerConnection(address, "test", heartbeat=5, timeout=PATIENCE)
    return refused.value


def dial_database(port: int, **parameters: str) -> DatabaseUnavailable:
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    db = open_database(f"postgresql+psycopg://ada@localhost:{port}/shop?{query}")
    with pytest.raises(DatabaseUnavailable) as refused:
        db.read(lambda tx: tx.execute(text("SELECT 1")))
    db.dispose()
    return refused.value


class TestTheBroker:
    def test_whose_certificate_has_expired_is_told_so(self, certificates: Certificates) -> None:
        with serving(certificates, "server.expired.pem", begin_at_once) as port:
            error = dial_broker(port, Tls(ca=certificates.ca))

        assert isinstance(error, AccessRefused)
        assert "shows a certificate that has expired: renew it there" in str(error)
        assert "broker.tls.ca" not in str(error)

    def test_that_finds_ours_expired_is_told_so(self, certificates: Certificates) -> None:
        ours = Tls(
            ca=certificates.ca, certificate=certificates.expired, key=certificates.client_key
        )
        with serving(certificates, "server.pem", begin_at_once) as port:
            error = dial_broker(port, ours)

        assert isinstance(error, AccessRefused)
        assert "refuses our certificate, which has expired: renew broker.tls.certif" in str(error)

    def test_is_not_dialled_with_an_encrypted_key(self, certificates: Certificates) -> None:
        ours = Tls(
            ca=certificates.ca, certificate=certificates.client, key=certificates.encrypted_key
        )
        with serving(certificates, "server.pem", begin_at_once) as port:
            error = dial_broker(port, ours)

        assert isinstance(error, AccessRefused)
        assert "is encrypted, and nobody is asked for its password" in str(error)


class TestTheDatabase:
    def test_whose_certificate_has_expired_is_told_so(self, certificates: Certificates) -> None:
        with serving(certificates, "server.expired.pem", agree_to_tls) as port:
            error = dial_database(port, sslmode="verify-full", sslrootcert=certificates.ca)

        assert isinstance(error, DatabaseRefused)
        assert "shows a certificate that has expired: renew it there" in str(error)
        assert "name the file" not in str(error)

    def test_with_another_authority_is_told_to_name_it(self, certificates: Certificates) -> None:
        with serving(certificates, "server.pem", agree_to_tls) as port:
            error = dial_database(port, sslmode="verify-full", sslrootcert=certificates.other_ca)

        assert isinstance(error, DatabaseRefused)
        assert "name the file of the authority that signed the server's certificate" in str(error)

    def test_that_finds_ours_expired_is_told_so(self, certificates: Certificates) -> None:
        with serving(certificates, "server.pem", agree_to_tls) as port:
            error = dial_database(
                port,
                sslmode="require",
                sslcert=certificates.expired,
                sslkey=certificates.client_key,
            )

        assert isinstance(error, DatabaseRefused)
        assert "our certificate, named as sslcert, has expired: renew it" in str(error)

    def test_is_not_dialled_with_an_encrypted_key(self, certificates: Certificates) -> None:
        with serving(certificates, "server.pem", agree_to_tls) as port:
            error = dial_database(
                port, sslcert=certificates.client, sslkey=certificates.encrypted_key
            )

        assert isinstance(error, DatabaseRefused)
        assert "is encrypted, and nobody is asked for its password" in str(error)


class TestSettings:
    """A terminal would be asked for the password: nobody answers there."""

    def test_with_an_encrypted_key_for_the_broker_are_wrong(
        self, certificates: Certificates
    ) -> None:
        environ = {
            "RETRIER_BROKER__URL": "amqps://broker.example",
            "RETRIER_BROKER__TLS__CERTIFICATE": certificates.client,
            "RETRIER_BROKER__TLS__KEY": certificates.encrypted_key,
        }

        with pytest.raises(
            ConfigurationError, match=r"broker\.tls\.key: .*is encrypted, and nobody"
        ):
            load_settings(None, environ)

    def test_with_an_encrypted_key_for_the_database_are_wrong(
        self, certificates: Certificates
    ) -> None:
        url = f"postgresql://db.example/shop?sslkey={certificates.encrypted_key}"

        with pytest.raises(ConfigurationError, match="sslkey that is encrypted, and nobody"):
            load_settings(None, {"RETRIER_DATABASE__URL": url})
        load_settings(None, {"RETRIER_DATABASE__URL": f"{url}&sslpassword=secret"})
