"""How the broker's URL is read."""

from dataclasses import replace

import pytest

from retrier.errors import ConfigurationError
from retrier.transport.rabbitmq.address import Address, parse_address

LOCAL = Address(
    host="127.0.0.1", port=5672, user="guest", password="guest", virtual_host="/", tls=False
)


@pytest.mark.parametrize(
    "url",
    [
        "amqp://",
        "amqp://127.0.0.1",
        "amqp://127.0.0.1/",
        "amqp://127.0.0.1//",
        "amqp://guest:guest@127.0.0.1:5672/%2F",
    ],
)
def test_what_is_left_out_is_the_brokers_default(url: str) -> None:
    assert parse_address(url) == LOCAL


def test_every_part_is_percent_decoded() -> None:
    address = parse_address("amqp://us%40er:p%2Fa%3As%25@broker.example:5673/v%2Fhost")

    assert address == Address(
        host="broker.example",
        port=5673,
        user="us@er",
        password="p/a:s%",
        virtual_host="v/host",
        tls=False,
    )


def test_amqps_is_tls_on_its_own_port() -> None:
    address = parse_address("amqps://broker.example")

    assert (address.tls, address.port) == (True, 5671)


def test_an_ipv6_address_keeps_its_colons() -> None:
    address = parse_address("amqp://[::1]:5673")

    assert (address.host, address.port) == ("::1", 5673)


def test_shows_itself_without_user_and_password() -> None:
    address = parse_address("amqp://me:secret@broker.example:5673/vhost")

    assert str(address) == "broker.example:5673"
    assert "secret" not in repr(address)


@pytest.mark.parametrize(
    "url",
    [
        "redis://broker.example",
        "sqs://broker.example",
        "memory://",
        "broker.example:5672",
        "amqp://broker.example:0",
        "amqp://broker.example:port",
        "amqp://me:sec/ret@broker.example",
        "amqp://me:sec#ret@broker.example",
        "amqp://me:sec?ret@broker.example",
        "amqp://[::1",
        "amqp://broker.example/vhost?heart=1",
        "amqp://broker.example/vhost?heartbeat=0",
        "amqp://broker.example/vhost?heartbeat=1.5",
        "amqp://broker.example/vhost?frame_max=100",
        "amqp://broker.example/vhost?verify=sec",
        "amqp://broker.example/vhost?",
    ],
)
def test_refuses_what_it_cannot_read_and_keeps_the_password_to_itself(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"broker\.url") as told:
        parse_address(url)

    assert "sec" not in str(told.value)


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ("heartbeat=30", {"heartbeat": 30}),
        ("connection_timeout=2500", {"connect_timeout": 2.5}),
        ("connection_timeout=7", {"connect_timeout": 7}),
        ("connect_timeout=7", {"connect_timeout": 7}),
        ("socket_timeout=7&heartbeat=5", {"connect_timeout": 7, "heartbeat": 5}),
        ("frame_max=8192&channel_max=5", {"frame_max": 8192, "channel_max": 5}),
    ],
)
def test_takes_the_usual_parameters_of_clients(parameters: str, found: dict[str, float]) -> None:
    address = parse_address(f"amqp://broker.example/vhost?{parameters}")

    assert address == replace(parse_address("amqp://broker.example/vhost"), **found)


def test_names_the_parameter_that_was_meant() -> None:
    with pytest.raises(ConfigurationError, match="is heartbeat meant"):
        parse_address("amqp://broker.example/?heartbeats=5")
