"""The command line as a person uses it, on an API in the same process and a scripted broker.

    cli = CommandLine(database)
    cli.bench.fail(3)                       # three failed messages
    result = cli.run("errors", "list")      # exit_code, stdout, stderr
    cli.terminal = 80                       # both outputs are a terminal so wide
    cli.answer = lambda request: ...        # somebody else answers instead of the API
    cli.editor = lambda text: ...           # what the editor of the person leaves
    cli.agrees = True                       # what the person says who is asked; None: nobody is there

While a command pauses, the processor of the bench works; `on_pause` does something else instead.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
import pytest
from typer.testing import Result

from retrier.cli.command import Tools
from retrier.cli.editor import edit
from retrier.domain.fields import DeclaredField
from retrier.errors import ServiceUnavailable
from retrier.store.engine.database import Database
from tests.support.api import Api
from tests.support.bench import Bench
from tests.support.commands import invoke
from tests.support.frozen_clock import FrozenClock
from tests.support.http_client import TestClient

NO_ENVIRONMENT = {"RETRIER_URL": None, "RETRIER_TOKEN": None, "USER": "ada", "NO_COLOR": None}


class CommandLine:
    """Runs commands; keeps the requests they made."""

    def __init__(
        self, db: Database, fields: Sequence[DeclaredField] = (), *, full_text: bool = False
    ) -> None:
        self.bench = Bench(db)
        self.api = Api(db, fields=fields, full_text=full_text)
        self.clock = FrozenClock()
        self.requests: list[httpx.Request] = []
        self.terminal: int | None = None
        self.answer: Callable[[httpx.Request], httpx.Response] | None = None
        self.on_pause: Callable[[], object] = self.bench.work
        self.agrees: bool | None = None
        self.questions: list[str] = []
        self.editor: Callable[[str], str | None] | None = None

    def run(self, *arguments: str, stdin: str | None = None, **environ: str) -> Result:
        """Run `retrier` with these arguments."""
        with pytest.MonkeyPatch.context() as patched:
            for name, value in self._environment(environ).items():
                if value is None:
                    patched.delenv(name, raising=False)
                else:
                    patched.setenv(name, value)
            tools = Tools(
                connect=self._connect,
                fetch=self._fetch,
                pause=self._pause,
                confirm=self._confirm,
                edit=self.editor or edit,
                clock=self.clock,
            )
            return invoke(arguments, stdin=stdin, obj=tools)

    def lines(self, *arguments: str) -> list[str]:
        """Run a command that has to end well; return the lines it prints."""
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()

    def asked(self) -> Sequence[Any]:
        """Return the operations that were asked for, the newest first."""
        return list(self.api.get("operations"))

    def _environment(self, given: Mapping[str, str]) -> dict[str, str | None]:
        width = {} if self.terminal is None else {"COLUMNS": str(self.terminal)}
        forced = {} if self.terminal is None else {"FORCE_COLOR": "1", "TERM": "xterm"}
        return {**NO_ENVIRONMENT, **width, **forced, **given}

    def _fetch(self, url: str, headers: Mapping[str, str], seconds: float) -> bytes:
        named = {name.encode(): text.encode() for name, text in headers.items()}
        try:
            with self._connect(url, named) as client:
                client.timeout = httpx.Timeout(seconds)
                return client.get(url).content
        except httpx.TransportError as error:
            raise ServiceUnavailable(str(error)) from error

    def _connect(self, base_url: str, headers: Mapping[bytes, bytes]) -> httpx.Client:
        client: httpx.Client
        if self.answer is None:
            client = TestClient(self.api.app, base_url=base_url)
        else:
            client = httpx.Client(base_url=base_url, transport=httpx.MockTransport(self.answer))
        client.headers.update(dict(headers))
        client.event_hooks["request"].append(self.requests.append)
        return client

    def _confirm(self, question: str) -> bool | None:
        self.questions.append(question)
        return self.agrees

    def _pause(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.on_pause()
