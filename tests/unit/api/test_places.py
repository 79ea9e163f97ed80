"""A database that hangs keeps out only what needs it: each kind of request has its places."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from anyio.to_thread import current_default_thread_limiter

from retrier.errors import AnswerTooSlow
from retrier.http.parts import AT_WORK, Places
from tests.support.api import Api
from tests.support.databases import open_upgraded, sqlite_url
from tests.support.flaky_database import FlakyDatabase

READERS = 60
IN_TIME = 20.0

Client = httpx.AsyncClient
Story = Callable[[Client], Awaitable[None]]


@pytest.fixture
def flaky(tmp_path: Path) -> Iterator[FlakyDatabase]:
    """Give a database that can hang."""
    real = open_upgraded(sqlite_url(tmp_path))
    yield FlakyDatabase(real)
    real.dispose()


@pytest.fixture
def api(flaky: FlakyDatabase) -> Iterator[Api]:
    """Give an API on it."""
    made = Api(flaky)
    yield made
    made.http.close()


class Hanging:
    """What hangs, until it is ended."""

    def __init__(self) -> None:
        self.has_all = Event()
        self._count = 0
        self._ended = Event()

    def meet(self, verb: str) -> None:
        if verb == "read":
            self._count += 1
            if self._count >= AT_WORK:
                self.has_all.set()
            self._ended.wait(IN_TIME)

    def end(self) -> None:
        self._ended.set()


@pytest.fixture
def hanging(flaky: FlakyDatabase) -> Iterator[Hanging]:
    """Let whoever reads hang."""
    made = Hanging()
    flaky.before = made.meet
    yield made
    made.end()


def tell(api: Api, story: Story) -> None:
    """Let the story happen, with a client that may ask for many things at once."""

    async def run() -> None:
        transport = httpx.ASGITransport(api.app)
        async with Client(transport=transport, base_url="http://localhost") as client:
            await asyncio.wait_for(story(client), IN_TIME)

    asyncio.run(run())


def give(api: Api, reads: Places) -> None:
    api.app.state.parts = replace(api.app.state.parts, reads=reads)


@pytest.mark.parametrize(
    ("method", "path", "status", "spare"),
    [
        ("GET", "/health", 200, 0),
        ("GET", "/health/ready", 200, 0),
        ("GET", "/metrics", 200, 0),
        ("POST", "/api/errors/retry/all", 202, 1),
        ("POST", "/api/errors/7/archive", 404, 1),
    ],
)
def test_all_else_is_answered_while_lists_hang(
    api: Api, hanging: Hanging, method: str, path: str, status: int, spare: int
) -> None:
    async def story(client: Client) -> None:
        # `spare` is how many threads of the server the lists cannot have.
        current_default_thread_limiter().total_tokens = AT_WORK + spare
        lists = [asyncio.create_task(client.get("/api/errors")) for _ in range(READERS)]
        await asyncio.to_thread(hanging.has_all.wait, IN_TIME)

        answer = await client.request(method, path)

        assert answer.status_code == status
        assert not any(each.done() for each in lists)
        hanging.end()
        assert {each.status_code for each in await asyncio.gather(*lists)} == {200}

    tell(api, story)


def test_a_list_that_finds_no_place_is_to_come_again_later(api: Api, hanging: Hanging) -> None:
    give(api, Places(at_work=1, timeout=0.01))

    async def story(client: Client) -> None:
        first = asyncio.create_task(client.get("/api/errors"))

        answers = await asyncio.gather(*[client.get("/api/operations") for _ in range(2)])

        hanging.end()
        assert [each.status_code for each in answers] == [503, 503]
        assert answers[0].headers["Retry-After"] == "5"
        assert answers[0].headers["Content-Type"] == "application/problem+json"
        assert "none ended" in answers[0].json()["detail"]
        assert (await first).status_code == 200

    tell(api, story)


def test_so_many_wait_and_no_more(api: Api, hanging: Hanging) -> None:
    give(api, Places(at_work=1, waiting=1, timeout=IN_TIME))

    async def story(client: Client) -> None:
        asked = [asyncio.create_task(client.get("/api/errors")) for _ in range(3)]

        done, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)

        hanging.end()
        assert [each.result().status_code for each in done] == [503]
        answers = await asyncio.gather(*waiting)
        assert [each.status_code for each in answers] == [200, 200]

    tell(api, story)


@pytest.mark.parametrize(("path", "status"), [("errors", 200), ("errors/7", 404), ("x", 404)])
def test_a_place_is_free_again_after_each_answer(api: Api, path: str, status: int) -> None:
    give(api, Places(at_work=1, timeout=0.01))

    statuses = {api.http.get(f"/api/{path}").status_code for _ in range(3)}

    assert statuses == {status}


def test_a_place_is_free_again_after_a_failure(api: Api, flaky: FlakyDatabase) -> None:
    give(api, Places(at_work=1, timeout=0.01))
    flaky.refuse("read", times=2)

    statuses = [api.http.get("/api/errors").status_code for _ in range(3)]

    assert statuses == [503, 503, 200]


def test_who_reads_its_answer_slowly_holds_no_place(api: Api) -> None:
    give(api, Places(at_work=1, timeout=0.01))
    scope = {"type": "http", "method": "GET", "path": "/api/errors", "headers": []}

    async def story(client: Client) -> None:
        sending, read = asyncio.Event(), asyncio.Event()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(_message: object) -> None:
            sending.set()
            await read.wait()

        slow = asyncio.create_task(api.app({**scope, "query_string": b""}, receive, send))  # type: ignore[arg-type]
        await sending.wait()

        answer = await client.get("/api/errors")

        assert answer.status_code == 200
        read.set()
        await slow

    tell(api, story)


def test_an_answer_that_takes_too_long_says_what_to_do(api: Api, flaky: FlakyDatabase) -> None:
    def give_up(_verb: str) -> None:
        raise AnswerTooSlow(f"no answer from {flaky.place} within 5 s")

    flaky.before = give_up

    answer = api.http.get("/api/errors")

    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert answer.json()["detail"] == (
        "The database took too long: no answer from its address within 5 s."
    )
    assert "Narrow the request" in answer.json()["advice"]
