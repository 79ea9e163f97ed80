"""The Host of a request: under which name its sender asks.

Whoever runs a web page decides what its name leads to, 127.0.0.1 too (DNS rebinding). For a browser
that page and this API have one origin then: the page could read lists and ask for retries, and
comparing Origin with Host would not show it. Only the name does, for it is that of the page. Names
that proxies pass on (X-Forwarded-Host) are not looked at: everybody can write them.
"""

from fastapi import Response
from starlette.datastructures import Headers

from retrier.api.problems import problem
from retrier.domain.hosts import Hosts, parse_host

_LONGEST_SHOWN = 100
_WANTED = "This API is asked as localhost, 127.0.0.1 or [::1], or as one of api.allowed_hosts"


def refuse_other_host(headers: Headers, hosts: Hosts) -> Response | None:
    """Answer 421 unless the request names exactly one host, and that is one of ours."""
    named = headers.getlist("host")
    host = parse_host(named[0]) if len(named) == 1 else None
    if host is not None and hosts.include(host):
        return None
    return problem(421, f"{_WANTED}; this request {_describe(named)}.")


def _describe(named: list[str]) -> str:
    match named:
        case []:
            return "names no host"
        case [one]:
            return f"names the host {one[:_LONGEST_SHOWN]}"
        case _:
            return "names several hosts"
