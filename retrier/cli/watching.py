"""Watching an operation until it is over; the service may be away for a while meanwhile."""

import typer

from retrier.cli.api_client import ApiClient, Json
from retrier.cli.endings import ExitCode
from retrier.cli.progress import Showing, showing
from retrier.cli.texts import short_id
from retrier.cli.tools import Tools
from retrier.errors import ServiceUnavailable

EVERY = 0.5
"""Seconds between two looks."""

PATIENCE = 30.0
"""Seconds the service may be away: it may be started anew, and the operation goes on then."""

_OVER = ("completed", "cancelled")


def watch_operation(tools: Tools, api: ApiClient, operation_id: str) -> Json:
    """Show how far an operation is until it is over; return it as it is then.

    Ctrl-C ends the watching, not the operation. Raises ServiceUnavailable when the service stays
    away.
    """
    try:
        with showing(tools) as shown:
            return _Watch(tools, api, operation_id).follow(shown)
    except KeyboardInterrupt:
        short = short_id(operation_id)
        tools.printer.note(
            f"The retry goes on. Watch it again with: retrier operations show {short} --watch"
        )
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def exit_code_of(found: Json) -> ExitCode:
    """Say whether all that an operation was asked for was forwarded."""
    whole = found["state"] == "completed" and not found["failed"] and not found["skipped"]
    return ExitCode.DONE if whole else ExitCode.REFUSED


class _Watch:
    def __init__(self, tools: Tools, api: ApiClient, operation_id: str) -> None:
        self._tools = tools
        self._api = api
        self._operation_id = operation_id
        self._away_since: float | None = None

    def follow(self, shown: Showing) -> Json:
        while True:
            found = self._look()
            if found is not None:
                shown.tell(found)
                if found["state"] in _OVER:
                    return found
            self._tools.pause(EVERY)

    def _look(self) -> Json | None:
        try:
            found = self._api.find("operations", self._operation_id)
        except ServiceUnavailable as error:
            self._bear_with(error)
            return None
        self._away_since = None
        return found

    def _bear_with(self, error: ServiceUnavailable) -> None:
        now = self._tools.clock.monotonic()
        if self._away_since is None:
            self._away_since = now
            self._tools.printer.note(f"{error} Trying again for {PATIENCE:.0f} s.")
        elif now - self._away_since > PATIENCE:
            raise error
