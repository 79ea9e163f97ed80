"""The block of docs/operations.md for nginx, as it stands: who has no password stays outside."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.support.forked_service import ForkingHost
from tests.support.plain_http import client_at
from tests.support.project import ROOT
from tests.support.servers import give_up
from tests.support.service import Service, hosted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

PORT, USERS = "127.0.0.1:33333", "/etc/nginx/retrier.users"
BLOCK = re.compile(r"```\n(location / \{.*?\n\})\n```", re.DOTALL)
CONFIG = """
daemon off; pid {folder}/pid; error_log stderr; user root;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/1; proxy_temp_path {folder}/2;
    fastcgi_temp_path {folder}/3; uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
    server {{ listen 127.0.0.1:{port}; {block} }}
}}
"""
HOST = "retrier.example"
WITH_PASSWORD = ("ada", "secret")


@dataclass(frozen=True, slots=True)
class Site:
    """The service, and the client of the proxy before it."""

    service: Service
    http: httpx.Client


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if nginx is None:
        give_up("no nginx: apt-get install nginx-light")
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "users").write_text("{}:{{PLAIN}}{}\n".format(*WITH_PASSWORD))
    settings = {
        "broker": {"url": f"embedded:///{folder}/broker.db"},
        "database": {"url": f"sqlite:///{folder}/retrier.db"},
        "api": {"port": 0, "allowed_hosts": [HOST]},
    }
    (shown,) = BLOCK.findall((ROOT / "docs/operations.md").read_text())
    with hosted(folder, settings, ForkingHost) as host:
        service, port = host.start_ready(), free_port()
        with service.http as http:
            block = shown.replace(PORT, f"127.0.0.1:{http.base_url.port}")
        block = block.replace(USERS, str(folder / "users"))
        text = CONFIG.format(folder=folder, port=port, block=block)
        (folder / "nginx.conf").write_text(text)
        command = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        with (
            subprocess.Popen(command, stderr=subprocess.DEVNULL) as proxy,
            client_at(f"http://127.0.0.1:{port}", headers={"Host": HOST}) as client,
        ):
            try:
                wait_until(lambda: answers(client), 10, "nginx does not answer")
                yield Site(service, client)
            finally:
                proxy.terminate()


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/").status_code > 0
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("path", ["/", "/api/errors", "/health/ready", "/metrics"])
def test_who_has_no_password_reads_nothing(site: Site, path: str) -> None:
    assert site.http.get(path).status_code == 401


def test_who_has_no_password_changes_nothing(site: Site) -> None:
    answer = site.http.post("/api/errors/retry/all", headers={"X-Retrier-User": "ada"})

    assert answer.status_code == 401
    with site.service.http as http:
        assert http.get("/api/operations").json() == []


def test_who_has_one_sees_the_page(site: Site) -> None:
    answer = site.http.get("/", auth=WITH_PASSWORD)

    assert (answer.status_code, "Retrier" in answer.text) == (200, True)


def test_the_name_in_the_event_log_is_that_of_the_login(site: Site) -> None:
    site.http.post(
        "/api/redirects",
        json={"fromphysicaladdress": "a", "tophysicaladdress": "b"},
        auth=WITH_PASSWORD,
        headers={"X-Retrier-User": "grace"},
    ).raise_for_status()

    with site.service.http as http:
        (entry,) = http.get("/api/eventlogitems", params={"kind": "redirect_created"}).json()
    assert entry["who"].startswith("ada (")
