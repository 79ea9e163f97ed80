"""A PgBouncer of the test run's own before the PostgreSQL server, with its default settings."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import make_url

from tests.support.private_servers import find_free_ports, is_listening, postgres_user
from tests.support.servers import give_up
from tests.support.waiting import wait_until

CONFIG = """\
[databases]
* = {server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
{more}
"""


@contextmanager
def pooler(server: str, mode: str, more: str = "") -> Iterator[int]:
    """Give the port of a pooler before the server; any user of it is the user of `server`."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        give_up("no PgBouncer: apt-get install pgbouncer")
    (port,) = find_free_ports(1)
    url = make_url(server)
    names = {"host": url.host, "port": url.port or 5432, "user": url.username}
    if url.password:
        names["password"] = url.password
    there = " ".join(f"{name}={value}" for name, value in names.items())
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pgbouncer.ini"
        file.write_text(CONFIG.format(server=there, port=port, mode=mode, more=more))
        user = postgres_user()  # it refuses to run as root, too
        if user is not None:
            shutil.chown(folder, user)
            shutil.chown(file, user)
        with subprocess.Popen(
            [str(program), str(file)], stderr=subprocess.DEVNULL, user=user, env=os.environ
        ) as process:
            try:
                wait_until(lambda: is_listening(port), 10, "PgBouncer listens")
                yield port
            finally:
                process.kill()
