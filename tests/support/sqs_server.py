"""A server on loopback that behaves as Amazon SQS does: moto, in a process of its own."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import boto3

from retrier.transport.sqs import SqsTransport
from retrier.transport.sqs.address import ENDPOINT, VISIBILITY_TIMEOUT, WAIT_TIME, parse_address
from tests.support.private_servers import find_free_ports
from tests.support.waiting import wait_until

URL = "sqs://key:secret@eu-west-1"
REGION = "eu-west-1"
ACCOUNT = "123456789012"
OTHER_SERVER = "RETRIER_TEST_SQS_COMMAND"
"""Names the command of another server, in which `{port}` stands for the port."""


@dataclass(frozen=True, slots=True)
class SqsServer:
    """Where it is."""

    endpoint: str

    def options(self, *, visibility: int = 30, wait: int = 1) -> dict[str, object]:
        """Return the transport options with which Retrier finds it."""
        return {ENDPOINT: self.endpoint, VISIBILITY_TIMEOUT: visibility, WAIT_TIME: wait}

    def transport(self, *, visibility: int = 30, wait: int = 1) -> SqsTransport:
        """Make a transport to it."""
        options = self.options(visibility=visibility, wait=wait)
        return SqsTransport(parse_address(URL, options), Random(1))  # noqa: S311 - only pauses are random

    def client(self) -> Any:
        """Return somebody else's client."""
        return boto3.client(
            "sqs",
            region_name=REGION,
            endpoint_url=self.endpoint,
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        )


def arn(queue: str) -> str:
    """Return the ARN of a queue of the server."""
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"


@contextmanager
def running_sqs() -> Iterator[SqsServer]:
    """Give a running server; it is killed in the end."""
    (port,) = find_free_ports(1)
    usual = f"{sys.executable} -m moto.server -H 127.0.0.1 -p {{port}}"
    command = os.environ.get(OTHER_SERVER, usual).format(port=port)
    endpoint = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        shlex.split(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_until(lambda: _answers(endpoint), 60, "the server answers")
            yield SqsServer(endpoint)
        finally:
            process.kill()


def _answers(endpoint: str) -> bool:
    try:
        with closing(urlopen(endpoint, timeout=3)):  # noqa: S310 - loopback
            return True
    except HTTPError:
        return True
    except OSError:
        return False


def make_hasty(endpoint: str) -> SqsTransport:
    """Make a transport in another process: what it has in hand comes back after two seconds."""
    return SqsServer(endpoint).transport(visibility=2)
