"""Where Amazon SQS is, who we are there, and how queues are named."""

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.loaders import create_loader
from botocore.session import Session, get_session

from retrier.domain.dialects.sqs import name_in_arn
from retrier.domain.values import dataclass
from retrier.errors import AccessRefused, ConfigurationError

VISIBILITY = 60
"""Seconds for which SQS keeps from others what a consumer has in hand, after each sign of life."""
WAIT = 20
"""Seconds for which SQS holds an empty answer back: the most that it allows."""
CONNECT_TIMEOUT = 5
ANSWER_TIMEOUT = 15
"""Seconds to wait for an answer, beyond what it is told to hold back."""
CONNECTIONS = 16

ENDPOINT, ROLE, PROFILE = "endpoint_url", "role_arn", "profile_name"
VISIBILITY_TIMEOUT, WAIT_TIME = "visibility_timeout", "wait_time_seconds"
"""What `broker.transport_options` may name; the settings check it."""
RANGES: Mapping[str, tuple[int, int]] = {VISIBILITY_TIMEOUT: (1, 43_200), WAIT_TIME: (0, 20)}

FIFO = ".fifo"

_find_loader = cache(create_loader)
"""What botocore knows of AWS and of SQS, megabytes of JSON: read once, not by each session anew.

A session of boto3 adds a folder to it each time, so the sessions are botocore's.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A region, and how to get in. Without key and secret, botocore looks for them in its own places."""

    region: str
    endpoint: str | None = None
    role: str | None = None
    profile: str | None = None
    key: str | None = None
    secret: str | None = field(default=None, repr=False)
    visibility: int = VISIBILITY
    wait: int = WAIT

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"SQS in {self.region}" + (f" at {self.endpoint}" if self.endpoint else "")


def parse_address(url: str, options: Mapping[str, object]) -> Address:
    """Read `sqs://REGION`, or `sqs://KEY:SECRET@REGION`, and the transport options.

    Raises ConfigurationError, never with the secret in it.
    """
    parts = urlsplit(url)
    if not parts.hostname:
        raise ConfigurationError(["broker.url: must name a region, such as sqs://eu-west-1"])
    texts = {name: str(given) for name in (ENDPOINT, ROLE, PROFILE) if (given := options.get(name))}
    return Address(
        region=unquote(parts.hostname or ""),
        key=unquote(parts.username) if parts.username else None,
        secret=unquote(parts.password) if parts.password else None,
        endpoint=texts.get(ENDPOINT),
        role=texts.get(ROLE),
        profile=texts.get(PROFILE),
        visibility=_read_number(options, VISIBILITY_TIMEOUT, VISIBILITY),
        wait=_read_number(options, WAIT_TIME, WAIT),
    )


def _read_number(options: Mapping[str, object], name: str, usual: int) -> int:
    given = options.get(name, usual)
    least, most = RANGES[name]
    text = str(given)
    if isinstance(given, bool) or not text.isdecimal() or not least <= int(text) <= most:
        raise ConfigurationError(
            [f"broker.transport_options.{name}: must be seconds from {least} to {most}"]
        )
    return int(text)


def make_client(address: Address) -> Any:
    """Return a client; nothing is asked, but where a role is assumed. Raises AccessRefused.

    The client itself tries nothing twice: after an answer that did not come, a message that is sent
    again may arrive twice, and only we know which may.
    """
    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=ANSWER_TIMEOUT + address.wait,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
    )
    try:
        session = _open_session(address)
        if address.key or address.secret:
            session.set_credentials(address.key, address.secret)
        if address.role:
            session = _assume(session, address)
        return session.create_client("sqs", endpoint_url=address.endpoint, config=config)
    except (BotoCoreError, ValueError) as error:
        raise AccessRefused(f"{address.place}: {error}") from error


def _open_session(address: Address) -> Session:
    session = get_session()
    session.set_config_variable("region", address.region)
    if address.profile:
        session.set_config_variable("profile", address.profile)
    loader = _find_loader(session.get_config_variable("data_path"))
    session.register_component("data_loader", loader)
    return session


def _assume(session: Session, address: Address) -> Session:
    """Return a session with the role, renewed before its credentials end: botocore does that."""
    from botocore.credentials import (  # noqa: PLC0415 - for the few that name a role
        AssumeRoleCredentialFetcher,
        DeferredRefreshableCredentials,
    )

    fetcher = AssumeRoleCredentialFetcher(
        client_creator=session.create_client,
        source_credentials=session.get_credentials(),
        role_arn=address.role,
        extra_args={"RoleSessionName": "retrier"},
    )
    assumed = _open_session(address)
    assumed._credentials = DeferredRefreshableCredentials(  # noqa: SLF001 - as botocore's own docs do
        method="assume-role", refresh_using=fetcher.fetch_credentials
    )
    return assumed


def name_beside(arn: str, own_arn: str) -> str:
    """Return how a queue is called here: by its name if it is in the account of another one of ours."""
    account, _, _ = own_arn.rpartition(":")
    return name_in_arn(arn) if arn.rpartition(":")[0] == account else arn
