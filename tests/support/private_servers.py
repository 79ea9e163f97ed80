"""Servers that a test run starts for itself alone, to restart, freeze and starve them."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pika.exceptions
import psycopg

from tests.support.servers import give_up, pika_connection, psycopg_url
from tests.support.waiting import wait_until

START_DEADLINE = 60.0
STOP_DEADLINE = 30.0
LAST_WORDS = 4000
"""Characters of a server's log that are shown where it does not start."""
LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST_PORT = 10_000
POLICY = "limit"
CONFIGURATION = """\
loopback_users.guest = true
max_message_size = 16777216
"""
"""The largest body is what RabbitMQ 4 has by itself; older ones have 128 MiB."""
RABBITMQ_TOOLS = "/usr/lib/rabbitmq/bin"
OTHER_TOOLS = "RETRIER_TEST_RABBITMQ_TOOLS"
"""Names the folder of another RabbitMQ's tools: the same faults on another version."""


class PrivateRabbitMQ:
    """A RabbitMQ node on loopback, with its own name, ports, cookie, data and port mapper."""

    def __init__(
        self, folder: Path, tools: Path, plugins: Sequence[str] = (), configuration: str = ""
    ) -> None:
        self.plugins = plugins
        self._tools = tools
        self.port, node, mapper = find_free_ports(3)
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        self._environ = make_environ(folder, (self.port, node, mapper), plugins)
        with (folder / "node.conf").open("a") as more:
            more.write(configuration)
        self._log = folder / "out.txt"
        self._pid_file = folder / "pid"
        self._script: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The node's process, once it runs."""
        return int(self._pid_file.read_text())

    def start(self, within: float = START_DEADLINE) -> None:
        """Start the node and wait until it takes clients."""
        with self._log.open("ab") as log:
            self._script = subprocess.Popen(
                [self._tools / "rabbitmq-server"],
                env=self._environ,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            wait_until(self._answers, within, "the private RabbitMQ answers")
        except AssertionError as error:
            error.add_note(self._log.read_text(errors="replace")[-LAST_WORDS:])
            raise

    def stop(self) -> None:
        """Stop the node in good order; its queues stay on disk."""
        self._signal(signal.SIGTERM)
        if self._script is not None:
            self._script.wait(STOP_DEADLINE)

    def kill(self) -> None:
        """End the node as a crash does; its queues stay on disk, as far as they are there."""
        self._signal(signal.SIGKILL)
        if self._script is not None:
            self._script.wait(STOP_DEADLINE)
        self._pid_file.unlink(missing_ok=True)

    def forget(self, queue: str) -> None:
        """Let it forget where a quorum queue's log is, as if it was declared just before a crash.

        Once it is killed and started again, it starts the queue with a new log and no leader.
        """
        name = f"'%2F_{queue}'"
        forget = f"ra_directory:unregister_name(S, ra_directory:uid_of(S, {name}))"
        self.control("eval", f"S = quorum_queues, {forget}, [dets:sync(D) || D <- dets:all()].")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it run no more for a while, with all connections open."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    @contextmanager
    def short_of_memory(self) -> Iterator[None]:
        """Let it raise the alarm for a while: it reads nothing more from who publishes."""
        self.control("eval", "rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).")
        try:
            yield
        finally:
            self.control("eval", "rabbit_alarm:clear_alarm({resource_limit, memory, node()}).")

    def limit(self, queue: str, **policy: int | str) -> None:
        """Set a policy on one queue; `max_length` stands for `max-length`. One at a time."""
        definition = json.dumps({name.replace("_", "-"): value for name, value in policy.items()})
        pattern = f"^{re.escape(queue)}$"
        self.control("set_policy", POLICY, pattern, definition, "--apply-to", "queues")

    def lift_limit(self) -> None:
        """Clear the policy."""
        self.control("clear_policy", POLICY)

    def discard(self) -> None:
        """End the node and its port mapper, whatever state they are in."""
        if self._script is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._script.pid, signal.SIGKILL)
            self._script.wait(STOP_DEADLINE)
        wait_until(self._is_mapper_gone, STOP_DEADLINE, "the port mapper is gone")

    def _is_mapper_gone(self) -> bool:
        # It refuses to end before it has noticed that its node is gone.
        command = ["epmd", "-kill"]
        subprocess.run(command, env=self._environ, check=False, capture_output=True, timeout=10)
        return not is_listening(int(self._environ["ERL_EPMD_PORT"]))

    def control(self, *words: str) -> str:
        """Tell the node something with `rabbitmqctl`; return what it printed."""
        command = [str(self._tools / "rabbitmqctl"), *words]
        done = subprocess.run(
            command, env=self._environ, check=True, capture_output=True, timeout=60, text=True
        )
        return done.stdout

    def names_of_queues(self) -> list[str]:
        """Return the names of all queues, sorted."""
        return sorted(self.control("--quiet", "list_queues", "name").split())

    def _signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def _answers(self) -> bool:
        with suppress(pika.exceptions.AMQPError, OSError):
            if is_listening(self.port):
                pika_connection(self.url).close()
                return True
        return False


def make_environ(
    folder: Path, ports: Sequence[int], plugins: Sequence[str] = ()
) -> Mapping[str, str]:
    """Return what keeps a node apart from every other one; writes its files into the folder."""
    port, node, mapper = ports
    (folder / "plugins").write_text(f"[{','.join(plugins)}].\n")
    (folder / "node.conf").write_text(CONFIGURATION)
    cookie = folder / ".erlang.cookie"
    cookie.write_text(uuid4().hex)
    cookie.chmod(0o400)
    return {
        **os.environ,
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"retrier-{uuid4().hex[:8]}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(node),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_CONFIG_FILE": str(folder / "node.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }


class PrivatePostgres:
    """A PostgreSQL cluster on loopback, with its own port and data."""

    def __init__(self, folder: Path, tools: Path, primary: "PrivatePostgres | None" = None) -> None:
        self._tools = tools
        self._data = folder / "data"
        self._log = folder / "log"
        (port,) = find_free_ports(1)
        self.url = f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
        self._options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        if primary is None:
            self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8")
        else:
            origin = psycopg_url(primary.url)
            self._run("pg_basebackup", "-R", "--checkpoint=fast", "--dbname", origin)

    def start(self) -> None:
        """Start the cluster and wait until it takes clients."""
        self._run("pg_ctl", "-w", "-l", str(self._log), "-o", self._options, "start")
        wait_until(self._answers, START_DEADLINE, "the private PostgreSQL answers")

    def use_tls(self, folder: Path) -> None:
        """Take TLS connections with the certificates in the folder (see certificates.py).

        The user `certified` has to show one of its own.
        """
        for name in ("server.pem", "server.key", "ca.pem"):
            copied = shutil.copy(folder / name, self._data / name)
            Path(copied).chmod(0o600)
            if (user := postgres_user()) is not None:
                shutil.chown(copied, user)
        rules = self._data / "pg_hba.conf"
        asked = "hostssl all certified 127.0.0.1/32 trust clientcert=verify-ca\n"
        rules.write_text(asked + rules.read_text())
        names = {
            "ssl_cert_file": "server.pem",
            "ssl_key_file": "server.key",
            "ssl_ca_file": "ca.pem",
        }
        with psycopg.connect(psycopg_url(self.url), autocommit=True) as conn:
            conn.execute("CREATE ROLE certified LOGIN SUPERUSER")
            for name, value in {**names, "ssl": "on"}.items():
                conn.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            conn.execute("SELECT pg_reload_conf()")
        wait_until(self._takes_tls, START_DEADLINE, "the private PostgreSQL takes TLS")

    def _takes_tls(self) -> bool:
        try:
            psycopg.connect(psycopg_url(self.url), connect_timeout=3, sslmode="require").close()
        except psycopg.OperationalError:
            return False
        return True

    def create_database(self) -> str:
        """Make an empty database; give its URL. It ends with the cluster."""
        name = f"retrier_test_{uuid4().hex[:12]}"
        with psycopg.connect(psycopg_url(self.url), autocommit=True) as conn:
            conn.execute(f'CREATE DATABASE "{name}"')
        return f"{self.url.rpartition('/')[0]}/{name}"

    def wait_for_standby(self) -> None:
        """From now on commit only what the standby has, too."""
        with psycopg.connect(psycopg_url(self.url), autocommit=True) as conn:
            conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            conn.execute("SELECT pg_reload_conf()")
            synchronous = "SELECT sync_state FROM pg_stat_replication"
            wait_until(
                lambda: conn.execute(synchronous).fetchall() == [("sync",)],
                START_DEADLINE,
                "the standby is synchronous",
            )

    def stop(self) -> None:
        """Break it off, as a crash does."""
        self._run("pg_ctl", "-m", "immediate", "-w", "stop")

    def promote(self) -> None:
        """Let this standby be the primary."""
        self._run("pg_ctl", "-w", "promote")

    def restart(self, mode: str) -> None:
        """Stop it in good order (`fast`) or as a crash does (`immediate`), and start it again."""
        self._run("pg_ctl", "-m", mode, "-w", "stop")
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let none of its processes run for a while, with all connections open."""
        leader = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(leader, signal.SIGSTOP)  # first, so that it makes no more of them
        stopped = [*find_children(leader), leader]
        try:
            for pid in stopped[:-1]:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def discard(self) -> None:
        """End the cluster, if it runs."""
        with suppress(subprocess.CalledProcessError):
            self.stop()

    def _run(self, tool: str, *words: str) -> None:
        subprocess.run(
            [self._tools / tool, "-D", self._data, *words],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._data.parent,
            timeout=START_DEADLINE,
            user=postgres_user(),
        )

    def _answers(self) -> bool:
        try:
            psycopg.connect(psycopg_url(self.url), connect_timeout=3).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def private_rabbitmq(
    plugins: Sequence[str] = (), configuration: str = ""
) -> Iterator[PrivateRabbitMQ]:
    """Give a running node; end and remove it afterwards. Skips aloud without RabbitMQ."""
    tools = find_tools("rabbitmq-server", RABBITMQ_TOOLS)
    with TemporaryDirectory(prefix="retrier-rabbitmq-") as folder:
        server = PrivateRabbitMQ(Path(folder), tools, plugins, configuration)
        try:
            server.start()
            yield server
        finally:
            server.discard()


@contextmanager
def private_postgres(primary: PrivatePostgres | None = None) -> Iterator[PrivatePostgres]:
    """Give a running cluster; end and remove it afterwards. Skips aloud without PostgreSQL.

    With a primary it is the standby of that one: readable, and ready to be promoted.
    """
    tools = find_tools("pg_ctl", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
    with TemporaryDirectory(prefix="retrier-postgres-") as folder:
        if (user := postgres_user()) is not None:
            shutil.chown(folder, user)
        server = PrivatePostgres(Path(folder), tools, primary)
        server.start()
        try:
            yield server
        finally:
            server.discard()


def find_tools(tool: str, *patterns: str) -> Path:
    """Return the folder of a server's tools: where packages put them, else the path's."""
    other = Path(os.environ.get(OTHER_TOOLS, ""))
    if OTHER_TOOLS in os.environ and (other / tool).exists():
        return other
    found = [p for pattern in patterns for p in Path("/").glob(f"{pattern[1:]}/{tool}")]
    on_path = shutil.which(tool)
    found += [Path(on_path)] if on_path else []
    if not found:
        give_up(f"{tool} is not installed: no server of our own can be started")
    return found[0].parent


def find_plugins(*names: str) -> list[str]:
    """Return those of RabbitMQ's plugins that are installed."""
    tools = find_tools("rabbitmq-server", RABBITMQ_TOOLS)
    return [name for name in names if any(tools.parent.glob(f"**/plugins/{name}-*"))]


def find_free_ports(count: int) -> list[int]:
    """Return different ports on which nothing listens.

    None of those that the system gives to whoever dials: a server that is away for a while would find its
    port taken by a client, above all by one that tries again and again to reach that very server.
    """
    below = int(LOCAL_PORTS.read_text().split()[0])
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(LOWEST_PORT, below)  # noqa: S311 - no secret
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in found:
                found.append(port)
    return found


def is_listening(port: int) -> bool:
    """Say whether somebody listens on a port of loopback."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def find_children(parent: int) -> list[int]:
    """Return the processes a process has started."""
    tasks = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(pid) for pid in tasks.read_text().split()]


def postgres_user() -> str | None:
    """Name the user to run PostgreSQL as: it refuses to run as root."""
    return "postgres" if os.geteuid() == 0 else None
