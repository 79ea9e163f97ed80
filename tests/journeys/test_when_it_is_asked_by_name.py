"""Whoever asks a running service names its host: its own clients are answered, no other page is."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.forked_service import ForkingHost
from tests.support.service import Service, hosted

pytestmark = pytest.mark.journey


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Give a service that a proxy may ask as retrier.example."""
    folder = tmp_path_factory.mktemp("asked")
    settings = {
        "broker": {"url": f"embedded:///{folder}/broker.db"},
        "database": {"url": f"sqlite:///{folder}/retrier.db"},
        "api": {"port": 0, "allowed_hosts": ["retrier.example"]},
    }
    with hosted(folder, settings, ForkingHost) as host:
        yield host.start_ready()


def port_of(service: Service) -> int:
    with service.http as http:
        return http.base_url.port or 0


def status_of(service: Service, *lines: str) -> int:
    """Send these lines as they stand; return the status of the answer."""
    with socket.create_connection(("127.0.0.1", port_of(service)), timeout=10) as line:
        line.sendall("".join(f"{each}\r\n" for each in (*lines, "Connection: close", "")).encode())
        return int(line.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    "path", ["/", "/health", "/health/ready", "/metrics", "/openapi.json", "/api", "/api/errors"]
)
def test_a_page_whose_name_leads_here_is_answered_nothing(service: Service, path: str) -> None:
    assert status_of(service, f"GET {path} HTTP/1.1", "Host: evil.example") == 421


@pytest.mark.parametrize(
    ("lines", "statuses"),
    [
        (["GET /api/errors HTTP/1.0"], {421}),
        (["GET /api/errors HTTP/1.1"], {400, 421}),
        (["GET /api/errors HTTP/1.1", "Host: localhost", "Host: evil.example"], {400, 421}),
        (["GET http://evil.example/api/errors HTTP/1.1", "Host: evil.example"], {421}),
        (["GET http://evil.example/api/errors HTTP/1.1", "Host: localhost"], {404, 421}),
        (["GET /api/errors HTTP/1.1", "Host: localhost@evil.example"], {400, 421}),
        (["GET /api/errors HTTP/1.1", "Host: [::1%lo]"], {400, 421}),
        (["POST /api/errors/retry/all HTTP/1.1", "Host: evil.example"], {421}),
    ],
    ids=repr,
)
def test_a_request_that_hides_its_host_is_answered_nothing(
    service: Service, lines: list[str], statuses: set[int]
) -> None:
    assert status_of(service, *lines) in statuses


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}"])
def test_a_local_browser_reads_and_acts(service: Service, host: str) -> None:
    own = host.format(port=port_of(service))

    assert status_of(service, "GET /api/errors HTTP/1.1", f"Host: {own}") == 200
    retried = status_of(
        service, "POST /api/errors/retry/all HTTP/1.1", f"Host: {own}", f"Origin: http://{own}"
    )
    assert retried == 202


def test_a_proxy_that_keeps_the_host_of_its_clients_reads_and_acts(service: Service) -> None:
    own = "retrier.example"

    assert status_of(service, "GET /api/errors HTTP/1.1", f"Host: {own}") == 200
    retried = status_of(
        service, "POST /api/errors/retry/all HTTP/1.1", f"Host: {own}", f"Origin: https://{own}"
    )
    assert retried == 202


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_command_line_works(service: Service, name: str) -> None:
    url = f"http://{name}:{port_of(service)}"

    done = subprocess.run(
        [sys.executable, "-m", "retrier", "groups", "--url", url],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, "no group has" in done.stderr) == (0, True)
