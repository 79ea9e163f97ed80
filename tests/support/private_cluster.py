"""A RabbitMQ cluster of three nodes that a test run starts for itself alone, to kill them one by one."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pika

from tests.support.private_servers import (
    RABBITMQ_TOOLS,
    STOP_DEADLINE,
    PrivateRabbitMQ,
    find_free_ports,
    find_tools,
    is_listening,
)
from tests.support.servers import pika_connection
from tests.support.waiting import wait_until

SIZE = 3
ANSWER_TIMEOUT = 60.0
MEMBER = "cluster_formation.classic_config.nodes.{place} = {name}\n"


class ClusterNode(PrivateRabbitMQ):
    """One node; all nodes of a cluster share the port mapper and the cookie."""

    def __init__(self, folder: Path, tools: Path, common: Mapping[str, str], name: str) -> None:
        folder.mkdir()
        super().__init__(folder, tools)
        self.name = name
        self._environ = {**self._environ, **common, "RABBITMQ_NODENAME": name}

    def kill(self) -> None:
        """End it as kill -9 does."""
        if self._script is not None:
            with suppress(ProcessLookupError, FileNotFoundError, ValueError):
                os.kill(self.pid, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.killpg(self._script.pid, signal.SIGKILL)
            self._script.wait(STOP_DEADLINE)

    def ask(self, *words: str) -> Any:
        """Ask the node something with `rabbitmqctl`; return what it answers."""
        answer = subprocess.run(
            [self._tools / "rabbitmqctl", "--quiet", "--formatter", "json", *words],
            env=self._environ,
            check=True,
            capture_output=True,
            timeout=ANSWER_TIMEOUT,
        )
        return json.loads(answer.stdout)

    def discard(self) -> None:
        """End it; the port mapper ends with the cluster."""
        self.kill()

    def end_mapper(self) -> None:
        """End the port mapper of the cluster, once all nodes have ended."""
        wait_until(self._is_mapper_gone, STOP_DEADLINE, "the port mapper is gone")


class PrivateCluster:
    """Three nodes on loopback that know each other from the beginning."""

    def __init__(self, folder: Path, tools: Path) -> None:
        (mapper,) = find_free_ports(1)
        common = {"ERL_EPMD_PORT": str(mapper)}
        names = [f"retrier-{uuid4().hex[:8]}@localhost" for _ in range(SIZE)]
        self.nodes = [
            ClusterNode(folder / str(place), tools, common, name)
            for place, name in enumerate(names)
        ]
        introduce(folder, names)

    @property
    def urls(self) -> list[str]:
        """Where each node takes clients."""
        return [node.url for node in self.nodes]

    def connect(self) -> pika.BlockingConnection:
        """Connect as somebody else's client would, to a node that lives."""
        return pika_connection(self._any_live().url)

    def start(self) -> None:
        """Start all nodes together: a member that starts alone waits for the others."""
        with ThreadPoolExecutor(SIZE) as all_at_once:
            list(all_at_once.map(ClusterNode.start, self.nodes))
        self.wait_for_all()

    def wait_for_all(self) -> None:
        """Wait until all nodes see each other."""
        self._any_live().control("await_online_nodes", str(SIZE))

    def find_leader(self, queue: str) -> ClusterNode:
        """Return the node on which the leader of a quorum queue is."""
        queues = self._any_live().ask("list_queues", "name", "leader")
        (leader,) = (each["leader"] for each in queues if each["name"] == queue)
        return next(node for node in self.nodes if node.name == leader)

    def find_connected(self, role: str) -> ClusterNode:
        """Return the node to which a connection is open whose name ends so."""
        connections = self._any_live().ask("list_connections", "port", "client_properties")
        (port,) = {each["port"] for each in connections if is_named(each, role)}
        return next(node for node in self.nodes if node.port == port)

    def discard(self) -> None:
        """End all nodes and their port mapper, whatever state they are in."""
        for node in self.nodes:
            node.discard()
        self.nodes[0].end_mapper()

    def _any_live(self) -> ClusterNode:
        return next(node for node in self.nodes if is_listening(node.port))


def introduce(folder: Path, names: Sequence[str]) -> None:
    """Write into the folder of each node who its neighbours are, and what they share."""
    members = "".join(
        MEMBER.format(place=place, name=name) for place, name in enumerate(names, start=1)
    )
    cookie = uuid4().hex
    for place in range(SIZE):
        node = folder / str(place)
        with (node / "node.conf").open("a") as conf:
            conf.write("cluster_formation.peer_discovery_backend = classic_config\n" + members)
        (node / ".erlang.cookie").chmod(0o600)
        (node / ".erlang.cookie").write_text(cookie)
        (node / ".erlang.cookie").chmod(0o400)


def is_named(connection: Mapping[str, Any], role: str) -> bool:
    """Say whether the name that a client gave its connection ends so."""
    properties = {name: value for name, _type, value in connection["client_properties"]}
    return str(properties.get("connection_name", "")).endswith(role)


@contextmanager
def private_cluster() -> Iterator[PrivateCluster]:
    """Give three running nodes; end and remove them afterwards. Skips aloud without RabbitMQ."""
    tools = find_tools("rabbitmq-server", RABBITMQ_TOOLS)
    with TemporaryDirectory(prefix="retrier-cluster-") as folder:
        cluster = PrivateCluster(Path(folder), tools)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.discard()
