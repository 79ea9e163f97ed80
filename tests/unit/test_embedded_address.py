"""Which file a URL of the embedded broker names, to Retrier and to Kombu alike."""

from pathlib import Path

import pytest
from kombu import Connection

from retrier.errors import ConfigurationError
from retrier.transport.embedded.transport import find_file, parse_address

FILES = {
    "embedded:////var/lib/broker.db": Path("/var/lib/broker.db"),
    "embedded:///./data/broker.db": Path.cwd() / "data/broker.db",
    "embedded:///data/broker.db": Path.cwd() / "data/broker.db",
    "embedded:///broker.db": Path.cwd() / "broker.db",
    "embedded:////with%20space/gr%C3%B6%C3%9Fe%3F.db": Path("/with space/größe?.db"),
    "embedded:////Upper/Case.DB": Path("/Upper/Case.DB"),
    "embedded://localhost//var/broker.db": Path("/var/broker.db"),
}


@pytest.mark.parametrize(("url", "path"), FILES.items())
def test_a_url_names_a_file(url: str, path: Path) -> None:
    assert parse_address(url) == path


@pytest.mark.parametrize("url", FILES)
def test_kombu_reads_a_url_in_the_same_way(url: str) -> None:
    connection = Connection(url)

    assert find_file(connection.hostname, connection.virtual_host) == parse_address(url)


def test_the_scheme_may_be_written_in_any_case() -> None:
    assert parse_address("Embedded:////broker.db") == Path("/broker.db")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("embedded", "must begin with embedded:///"),
        ("sqlite:///broker.db", "must begin with embedded:///"),
        ("embedded://", "must name a file"),
        ("embedded:///", "must name a file"),
        ("embedded:////", "must name a file"),
        ("embedded:///data/", "must name a file"),
        ("embedded://data/broker.db", "names the host 'data'"),
        ("embedded:///broker.db?mode=ro", "no [?] and no #"),
        ("embedded:///broker.db#1", "no [?] and no #"),
        ("embedded://[/broker.db", "is not a URL"),
    ],
)
def test_says_what_is_wrong_with_a_url(url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        parse_address(url)
