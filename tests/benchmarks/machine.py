"""Where it was measured: figures of different machines cannot be compared."""

import os
import platform
from importlib.metadata import version

import psycopg

from retrier import __version__
from tests.benchmarks.place import Place
from tests.benchmarks.raw_line import connect
from tests.support.servers import psycopg_url

LIBRARIES = ("amqp", "kombu", "psycopg", "sqlalchemy")


def describe_machine(place: Place) -> dict[str, object]:
    """Return cores, memory, load and versions."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "rabbitmq": _rabbitmq_version(place.amqp_url),
        "postgresql": _postgres_version(place.postgres_url),
        "retrier": __version__,
        **{name: version(name) for name in LIBRARIES},
    }


def _rabbitmq_version(url: str) -> str:
    connection = connect(url)
    found = str(connection.server_properties["version"])
    connection.collect()
    return found


def _postgres_version(url: str) -> str:
    with psycopg.connect(psycopg_url(url)) as conn:
        return str(conn.execute("SHOW server_version").fetchall()[0][0])
