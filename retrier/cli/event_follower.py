"""Follows the events of the service as they happen, over every loss of the connection."""

import json
from collections.abc import Iterable, Iterator, Mapping

from retrier.cli.api_client import ApiClient, Json
from retrier.cli.command import Tools
from retrier.errors import ServiceUnavailable

_PAUSE = 2.0
"""Seconds before the service is asked again."""


class EventFollower:
    """Yields each event once, from the beginning of the first connection on.

    The first connection has to succeed: it raises ServiceUnavailable. Later the service may be
    away for any time; it is told where to go on, so that nothing is left out.
    """

    def __init__(self, tools: Tools, api: ApiClient, params: Mapping[str, str]) -> None:
        self._tools = tools
        self._api = api
        self._params = params
        self._place = ""

    def follow(self) -> Iterator[Json]:
        """Yield events as they come, for ever. Raises ServiceUnavailable, RequestRefused."""
        while True:
            try:
                yield from self._read()
                reason = "The service has ended the connection."
            except ServiceUnavailable as error:
                if not self._place:
                    raise
                reason = str(error)
            self._tools.printer.note(f"{reason}\nConnecting again ...")
            self._tools.pause(_PAUSE)

    def _read(self) -> Iterator[Json]:
        headers = {"Last-Event-ID": self._place} if self._place else {}
        with self._api.lines(("events",), self._params, headers) as lines:
            for fields in _blocks(lines):
                # Before it is yielded: whoever gets it has it, whatever becomes of the connection.
                self._place = fields.get("id", self._place)
                if "data" in fields:
                    event: Json = json.loads(fields["data"])
                    yield event


def _blocks(lines: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Yield the fields of each whole block: lines up to an empty one. Comments have no name."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            yield fields
            fields = {}
        name, _, value = line.partition(": ")
        fields[name] = value
