"""Where the settings ask who asks: two instances, a certificate, a port for probes."""

import shutil
import signal
import socket
import ssl
import subprocess
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest

from retrier.domain.access import AccessRole, hash_secret
from tests.journeys.conftest import Site
from tests.support.access import bearer, token_of
from tests.support.certificates import make_certificates
from tests.support.service import Service, hosted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

ADMIN = bearer(AccessRole.ADMIN)
TOKENS = [
    {"name": "admin", "role": "admin", "sha256": hash_secret(token_of(AccessRole.ADMIN))},
    {"name": "reader", "role": "reader", "sha256": hash_secret(token_of(AccessRole.READER))},
]


def status_of(http: httpx.Client, token: str) -> int:
    return http.get("/api/errors", headers={"Authorization": f"Bearer {token}"}).status_code


@pytest.mark.rabbitmq
@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["quorum"])
def test_what_is_revoked_by_one_instance_is_refused_by_the_other_within_a_second(
    site: Site,
) -> None:
    site.host.configure("access", tokens=TOKENS)
    one, other = site.host.start_ready("api"), site.host.start_ready("api")
    with one.http as first, other.http as second:
        made = first.post("/api/tokens", headers=ADMIN, json={"name": "ci", "role": "reader"})
        token = str(made.json()["token"])
        known = status_of(second, token)
        first.delete("/api/tokens/ci", headers=ADMIN)
        began = monotonic()
        wait_until(lambda: status_of(second, token) == 401, 5, "it is still let in")

        assert known == 200
        assert monotonic() - began < 1
        told = first.get("/api/eventlogitems", headers=ADMIN).json()
    assert [each["kind"] for each in told][:2] == ["token_revoked", "token_created"]


class TestOnTheEmbeddedBroker:
    @pytest.fixture
    def settings(self, tmp_path: Path) -> dict[str, Any]:
        return {
            "broker": {"url": f"embedded:///{tmp_path / 'broker.db'}"},
            "database": {"url": f"sqlite:///{tmp_path / 'retrier.db'}"},
            "log": {"format": "json"},
            "access": {"tokens": TOKENS},
        }

    def test_it_speaks_tls_and_takes_a_new_certificate_at_a_signal(
        self, tmp_path: Path, settings: dict[str, Any]
    ) -> None:
        folder = tmp_path / "certificates"
        folder.mkdir()
        made = make_certificates(folder)
        used = {"certificate": str(folder / "server.pem"), "key": str(folder / "server.key")}
        settings["api"] = {"port": 0, "tls": used}
        with hosted(tmp_path / "host", settings) as host:
            service = host.start()
            wait_until(lambda: service.find("api.listening"), 60, "it does not listen")
            port = service.find("api.listening")[0]["port"]
            before = serial_of(port, made.ca)
            renew(folder)
            service.process.send_signal(signal.SIGHUP)
            wait_until(lambda: service.find("api.certificate_renewed"), 30, "it was not read")

            assert service.find("api.listening")[0]["page"].startswith("https://")
            assert serial_of(port, made.ca) != before
            Path(used["certificate"]).write_text("nonsense")
            service.process.send_signal(signal.SIGHUP)
            wait_until(lambda: service.find("api.certificate_refused"), 30, "nothing was said")
            assert serial_of(port, made.ca) != before

    def test_probes_have_a_port_of_their_own(
        self, tmp_path: Path, settings: dict[str, Any]
    ) -> None:
        settings["api"] = {"port": 0, "health_port": 0}
        with hosted(tmp_path / "host", settings) as host:
            service = host.start()
            wait_until(lambda: service.find("health.listening"), 60, "it does not listen")
            port = service.find("health.listening")[0]["port"]
            with httpx.Client(base_url=f"http://127.0.0.1:{port}") as http:
                wait_until(lambda: http.get("/health/ready").status_code == 200, 60)
                told = http.get("/health/ready").json()["parts"]["database"]["reason"]
                metrics = http.get("/metrics").status_code
                errors = http.get("/api/errors").status_code
            statuses = asked_without_token(service)

        assert told == "reached"
        assert (metrics, errors) == (200, 404)
        assert statuses == {"/": 401, "/api/errors": 401, "/metrics": 401, "/health": 200}


def asked_without_token(service: Service) -> dict[str, int]:
    port = service.find("api.listening")[0]["port"]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as http:
        paths = ("/", "/api/errors", "/metrics", "/health")
        return {path: http.get(path).status_code for path in paths}


def serial_of(port: int, authority: str) -> int:
    """Return the number of the certificate that is shown there, checked."""
    context = ssl.create_default_context(cafile=authority)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        return int(str((secured.getpeercert() or {})["serialNumber"]), 16)


def renew(folder: Path) -> None:
    """Put another certificate of the same authority in the place of the server's."""
    fresh = folder / "fresh"
    fresh.mkdir()
    for name in ("server.csr", "server.ext", "ca.pem", "ca.key"):
        shutil.copy(folder / name, fresh / name)
    words = [
        *("openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
        *("-CAcreateserial", "-days", "2", "-extfile", "server.ext", "-out", "server.pem"),
    ]
    subprocess.run(words, cwd=fresh, check=True, capture_output=True, timeout=60)
    shutil.copy(fresh / "server.pem", folder / "server.pem")
