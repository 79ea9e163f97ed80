"""Hosts as requests name them: what is one, and which are the machine itself."""

import pytest

from retrier.domain.hosts import Host, Hosts, parse_host


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("retrier.example", Host("retrier.example")),
        ("Retrier.EXAMPLE.", Host("retrier.example")),
        ("retrier.example:8443", Host("retrier.example", 8443)),
        ("retrier.example:", Host("retrier.example")),
        ("my_proxy", Host("my_proxy")),
        ("10.0.0.7:80", Host("10.0.0.7", 80)),
        ("[FD00:0::7]:80", Host("fd00::7", 80)),
        ("[0:0:0:0:0:0:0:1]", Host("::1")),
    ],
)
def test_a_host_is_read_in_whatever_way_it_is_written(text: str, host: Host) -> None:
    assert parse_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        ":80",
        "a b",
        "localhost:0",
        "localhost:65536",
        "localhost:-1",
        "localhost:8\u0660",
        "localhost:123456",
        "localhost@evil.example",
        "user:password@localhost",
        "localhost/evil.example",
        "localhost#evil.example",
        "localhost, evil.example",
        "localhost\0",
        "http://localhost",
        "*.example",
        "[::1%25lo]",
        "[fe80::1%eth0]",
        "::1",
        "[127.0.0.1]",
        "[localhost]",
        "[::1",
        "ꞁocalhost",
        "büro.example",
    ],
)
def test_what_else_a_text_may_be_is_no_host(text: str) -> None:
    assert parse_host(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "localhost",
        "LOCALHOST:33333",
        "localhost.",
        "localhost.:33333",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.255.255.254",
        "[::1]",
        "[::1]:33333",
    ],
)
def test_the_machine_itself_is_always_included(text: str) -> None:
    host = parse_host(text)

    assert host is not None
    assert Hosts().include(host)


@pytest.mark.parametrize(
    "text",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.localhost",
        "localhost..",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",  # noqa: S104 - refused
        "128.0.0.1",
        "[::]",
        "[::2]",
        "[::ffff:127.0.0.1]",
    ],
)
def test_no_other_is(text: str) -> None:
    host = parse_host(text)

    assert host is None or not Hosts().include(host)


@pytest.mark.parametrize(
    ("listed", "asked", "included"),
    [
        ("retrier.example", "retrier.example", True),
        ("retrier.example", "RETRIER.example.:8443", True),
        ("retrier.example", "www.retrier.example", False),
        ("retrier.example", "example", False),
        ("retrier.example:8443", "retrier.example:8443", True),
        ("retrier.example:8443", "retrier.example", False),
        ("retrier.example:8443", "retrier.example:80", False),
        ("[fd00::7]", "[fd00:0:0::7]:80", True),
    ],
)
def test_one_that_is_listed_is_included_with_any_port_or_its_own(
    listed: str, asked: str, *, included: bool
) -> None:
    named, host = parse_host(listed), parse_host(asked)

    assert named is not None
    assert host is not None
    assert Hosts(frozenset({named})).include(host) is included
