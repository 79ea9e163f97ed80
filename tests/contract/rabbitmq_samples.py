"""Messages as RabbitMQ's clients in other languages write them, the awkward ones above all."""

import os
from collections.abc import Mapping

from tests.support.amqp_bytes import (
    NO_PROPERTIES,
    array,
    byte_array,
    decimal,
    header,
    long,
    properties,
    string,
    table,
    time,
)

MILLISECONDS = 1_700_000_000_000

OWN_USER = "the connection's own user"


SAMPLES: Mapping[str, tuple[bytes, bytes]] = {
    "nothing at all": (NO_PROPERTIES, b""),
    "an empty header table": (properties(headers=[]), b"x"),
    "nested tables and arrays": (
        properties(
            headers=[
                header("t", table(header("a", array(table(header("b", long(1))), string("x"))))),
                header("empty", array()),
                header("none", b"V"),
            ]
        ),
        b"x",
    ),
    "decimals with trailing zeros": (
        properties(headers=[header("price", decimal(2, 1230)), header("big", decimal(255, 1))]),
        b"x",
    ),
    "integers of every width": (
        properties(
            headers=[
                header("b", b"b\xff"),
                header("B", b"B\xff"),
                header("s", b"s\xff\xfe"),
                header("u", b"u\xff\xfe"),
                header("I", b"I\x80\x00\x00\x00"),
                header("i", b"i\xff\xff\xff\xff"),
                header("l", long(5)),
                header("f", b"f\x3f\xc0\x00\x00"),
                header("t", b"t\x01"),
            ]
        ),
        b"x",
    ),
    "times in milliseconds": (
        properties(headers=[header("sent", time(MILLISECONDS))], timestamp=MILLISECONDS),
        b"x",
    ),
    "a time out of all range": (properties(headers=[header("sent", time(2**64 - 1))]), b"x"),
    "a binary correlation id": (
        properties(correlation_id=b"\x93\x1f\xff\x00id", message_id=b"\xfe\xff"),
        b"x",
    ),
    "binary headers": (
        properties(
            headers=[header(b"\xff\xfe", string(b"\xff")), header("x", byte_array(b"\x80"))]
        ),
        b"x",
    ),
    "names that occur twice": (
        properties(headers=[header("k", string("1")), header("k", long(2))]),
        b"x",
    ),
    "five megabytes": (properties(delivery_mode=2), os.urandom(1 << 20) * 5),
    "utf-16 in an encoding that says so": (
        properties(content_type="text/plain", content_encoding="utf-16"),
        "größe".encode("utf-16"),
    ),
    "a compression header": (
        properties(headers=[header("compression", string("application/x-gzip"))]),
        b"not compressed at all",
    ),
    "an expiration": (properties(expiration="600000"), b"x"),
    "the highest priority": (properties(priority=255), b"x"),
    "every field": (
        properties(
            content_type="application/json",
            content_encoding="utf-8",
            headers=[header("NServiceBus.MessageId", string("m-1"))],
            delivery_mode=2,
            priority=9,
            correlation_id="c-1",
            reply_to="answers",
            expiration="600000",
            message_id="m-1",
            timestamp=1_700_000_000,
            type="OrderPlaced",
            app_id="shop",
            cluster_id="here",
        ),
        b"{}",
    ),
}


def samples_of(user: str) -> Mapping[str, tuple[bytes, bytes]]:
    """Give all samples, those included that only this user may publish."""
    return {**SAMPLES, OWN_USER: (properties(user_id=user), b"x")}
