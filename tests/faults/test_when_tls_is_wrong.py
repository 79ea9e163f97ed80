"""Servers that speak TLS: what connects, and what `retrier check` says of what does not."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from typer.testing import CliRunner

from retrier.cli import app
from tests.support.certificates import Certificates, make_certificates
from tests.support.private_servers import (
    PrivatePostgres,
    find_free_ports,
    private_postgres,
    private_rabbitmq,
)

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    with TemporaryDirectory(prefix="retrier-tls-") as folder:
        Path(folder).chmod(0o755)
        yield make_certificates(Path(folder))


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a node listens."""

    plain: int
    tls: int


@contextmanager
def tls_rabbitmq(certificates: Certificates, *, asks: bool) -> Iterator[Ports]:
    """Give the ports of a node that speaks TLS, and perhaps asks for a certificate."""
    (port,) = find_free_ports(1)
    folder = certificates.folder
    verify = "verify_peer" if asks else "verify_none"
    lines = {
        "listeners.ssl.default": port,
        "ssl_options.cacertfile": folder / "ca.pem",
        "ssl_options.certfile": folder / "server.pem",
        "ssl_options.keyfile": folder / "server.key",
        "ssl_options.verify": verify,
        "ssl_options.fail_if_no_peer_cert": str(asks).lower(),
    }
    text = "".join(f"{name} = {value}\n" for name, value in lines.items())
    with private_rabbitmq(configuration=text) as node:
        yield Ports(plain=node.port, tls=port)


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[Ports]:
    with tls_rabbitmq(certificates, asks=False) as ports:
        yield ports


@pytest.fixture(scope="module")
def asking_broker(certificates: Certificates) -> Iterator[Ports]:
    with tls_rabbitmq(certificates, asks=True) as ports:
        yield ports


@pytest.fixture(scope="module")
def cluster(certificates: Certificates) -> Iterator[PrivatePostgres]:
    with private_postgres() as server:
        server.use_tls(certificates.folder)
        yield server


def check(folder: Path, **sections: object) -> tuple[int, dict[str, str]]:
    """Return the exit code of `retrier check`, and the text of each line."""
    (folder / "retrier.yaml").write_text(yaml.safe_dump(sections))
    asked = ["check", "--config", str(folder / "retrier.yaml"), "--json"]
    result = CliRunner().invoke(app, asked)
    found = json.loads(result.stdout)["results"]
    return result.exit_code, {each["name"]: each["text"] for each in found}


class TestTheBroker:
    def told(self, folder: Path, port: int, host: str = "localhost", **tls: object) -> str:
        url = f"amqps://guest:guest@{host}:{port}//"
        database = {"url": f"sqlite:///{folder}/retrier.db"}
        code, told = check(
            folder,
            broker={"url": url, "tls": tls},
            database=database,
            ingestion={"declare_missing": True},
        )
        assert code == (0 if told["broker"].startswith("ok, ") else 2)
        return told["broker"]

    def test_with_its_authority_it_is_reached(
        self, broker: Ports, certificates: Certificates, tmp_path: Path
    ) -> None:
        assert self.told(tmp_path, broker.tls, ca=certificates.ca).startswith("ok, ")

    def test_unverified_it_is_reached(self, broker: Ports, tmp_path: Path) -> None:
        assert self.told(tmp_path, broker.tls, verify=False).startswith("ok, ")

    def test_another_authority_is_told(
        self, broker: Ports, certificates: Certificates, tmp_path: Path
    ) -> None:
        told = self.told(tmp_path, broker.tls, ca=certificates.other_ca)

        assert "shows a certificate that is not trusted here" in told
        assert "as broker.tls.ca" in told

    def test_without_an_authority_it_is_not_trusted(self, broker: Ports, tmp_path: Path) -> None:
        assert "shows a certificate that is not trusted here" in self.told(tmp_path, broker.tls)

    def test_another_host_name_is_told(
        self, broker: Ports, certificates: Certificates, tmp_path: Path
    ) -> None:
        told = self.told(tmp_path, broker.tls, host="127.0.0.1", ca=certificates.ca)

        assert "shows a certificate for another name" in told
        assert "127.0.0.1" in told

    def test_a_port_without_tls_is_told(
        self, broker: Ports, certificates: Certificates, tmp_path: Path
    ) -> None:
        told = self.told(tmp_path, broker.plain, ca=certificates.ca)

        assert "does not speak TLS on this port: write amqp:// in broker.url" in told

    def test_a_certificate_that_is_asked_for_and_given_is_taken(
        self, asking_broker: Ports, certificates: Certificates, tmp_path: Path
    ) -> None:
        own = {"certificate": certificates.client, "key": certificates.client_key}

        assert self.told(tmp_path, asking_broker.tls, ca=certificates.ca, **own).startswith("ok, ")

    def test_a_certificate_that_is_asked_for_and_missing_is_told(
        self, asking_broker: Ports, certificates: Certificates, tmp_path: Path
    ) -> None:
        told = self.told(tmp_path, asking_broker.tls, ca=certificates.ca)

        assert "name one that it trusts as broker.tls.certificate, with broker.tls.key" in told


class TestTheDatabase:
    def told(
        self, cluster: PrivatePostgres, folder: Path, host: str = "localhost", **parameters: str
    ) -> str:
        user = "certified" if "certified" in parameters else "postgres"
        given = {name: each for name, each in parameters.items() if name != "certified"}
        port = cluster.url.rpartition(":")[2]
        query = "&".join(f"{name}={value}" for name, value in given.items())
        url = f"postgresql://{user}@{host}:{port.partition('/')[0]}/postgres?{query}"
        broker = {"url": f"embedded:///{folder}/broker.db"}
        code, told = check(folder, broker=broker, database={"url": url})
        assert code == (0 if told["database"].startswith("ok, ") else 2)
        return told["database"]

    def test_with_its_authority_it_is_reached(
        self, cluster: PrivatePostgres, certificates: Certificates, tmp_path: Path
    ) -> None:
        told = self.told(cluster, tmp_path, sslmode="verify-full", sslrootcert=certificates.ca)

        assert told.startswith("ok, ")

    def test_another_authority_is_told(
        self, cluster: PrivatePostgres, certificates: Certificates, tmp_path: Path
    ) -> None:
        told = self.told(
            cluster, tmp_path, sslmode="verify-full", sslrootcert=certificates.other_ca
        )

        assert "certificate verify failed" in told
        assert "name the file of the authority that signed the server's certificate" in told

    def test_another_host_name_is_told(
        self, cluster: PrivatePostgres, certificates: Certificates, tmp_path: Path
    ) -> None:
        told = self.told(
            cluster, tmp_path, "127.0.0.1", sslmode="verify-full", sslrootcert=certificates.ca
        )

        assert "name the host in database.url as the server's certificate does" in told

    def test_a_certificate_that_is_asked_for_and_missing_is_told(
        self, cluster: PrivatePostgres, certificates: Certificates, tmp_path: Path
    ) -> None:
        told = self.told(
            cluster, tmp_path, certified="yes", sslmode="require", sslrootcert=certificates.ca
        )

        assert "name our certificate as sslcert and its key as sslkey" in told

    def test_a_certificate_that_is_asked_for_and_given_is_taken(
        self, cluster: PrivatePostgres, certificates: Certificates, tmp_path: Path
    ) -> None:
        key = shutil.copy(certificates.client_key, tmp_path / "client.key")
        Path(key).chmod(0o600)

        told = self.told(
            cluster,
            tmp_path,
            certified="yes",
            sslmode="verify-full",
            sslrootcert=certificates.ca,
            sslcert=certificates.client,
            sslkey=str(key),
        )

        assert told.startswith("ok, ")
