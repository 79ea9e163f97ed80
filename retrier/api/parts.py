"""What the API is given when it is built, and how a handler asks for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from retrier.api.remembered import Remembered
from retrier.domain.hosts import Hosts
from retrier.gateway import Gateway
from retrier.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """What the handlers work with.

    `health` tells of each part of the service whether it works, and why or why not. `metrics`
    returns the content type and the text of a scrape with this Accept header. Requests that name
    none of `hosts` are refused.
    """

    db: Database
    gateway: Gateway
    health: Callable[[], Mapping[str, tuple[bool, str]]]
    metrics: Callable[[str], tuple[str, bytes]]
    version: str
    hosts: Hosts = field(default_factory=Hosts)
    remembered: Remembered = field(default_factory=Remembered)


def _of(request: Request) -> ApiParts:
    parts: ApiParts = request.app.state.parts
    return parts


Parts = Annotated[ApiParts, Depends(_of)]
