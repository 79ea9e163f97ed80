"""An answer that does not end: server-sent events, and places for so many who follow them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Generic, TypeVar

from anyio import CancelScope, create_task_group
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from retrier.http.problems import later

COMMENT_EVERY = 15.0
"""Seconds after which a comment says that the connection lives, though nothing happens."""

_END: Message = {"type": "http.response.body", "body": b""}
_LOOK_EVERY = 2.0
"""Seconds from one look whether who follows is still let in to the next."""

Source = TypeVar("Source")


class Readers:
    """Those who follow something in one process: `most` at the same time. Of one event loop."""

    def __init__(self, most: int, what: str) -> None:
        """`what` says of so many readers what they do: `readers follow the events`."""
        self._most = most
        self._what = what
        self._count = 0
        self.is_over = False
        """Set when the service stops: nobody comes any more."""

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Be a reader while the context is open. Raises HTTPException if there is no place left."""
        if self.is_over:
            raise later("The service is being stopped.")
        if self._count >= self._most:
            raise later(f"{self._count} {self._what} already.")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


class LiveAnswer(Response, Generic[Source]):
    """Answers with what happens until the client leaves, or until nothing more is written.

    `joined` gives what is followed, and refuses whom there is no place for; `write` writes it.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        joined: Callable[[], AbstractAsyncContextManager[Source]],
        write: Callable[[Source, Send], Awaitable[None]],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        # Not that of the base class: it would say how long the answer is.
        self.status_code = 200
        self.background = None
        self.init_headers(
            {**(headers or {}), "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )
        self._joined = joined
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. Raises what `joined` raises, if there is no place left."""
        async with self._joined() as source:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            let_in = asyncio.Event()
            let_in.set()
            async with create_task_group() as group:
                group.start_soon(_end_when_gone, receive, group.cancel_scope)
                group.start_soon(_end_when_over, Request(scope), group.cancel_scope, let_in)
                await self._write(source, send)
                await send(_END)
                group.cancel_scope.cancel()
            if not let_in.is_set():
                await send(_END)


async def _end_when_over(request: Request, scope: CancelScope, let_in: asyncio.Event) -> None:
    """End the answer when who follows is no longer let in: logged out, or a token is revoked."""
    parts = getattr(getattr(request.scope.get("app"), "state", None), "parts", None)
    if parts is None or parts.gate.rules is None:
        return
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        if await parts.gate.is_over(request):
            break
    let_in.clear()
    scope.cancel()


def part(content: bytes) -> Message:
    """Return a piece of an answer that goes on."""
    return {"type": "http.response.body", "body": content, "more_body": True}


async def happens(changed: asyncio.Event) -> bool:
    """Wait for it as long as a connection may be silent; say whether it has happened."""
    try:
        async with asyncio.timeout(COMMENT_EVERY):
            await changed.wait()
    except TimeoutError:
        return False
    return True


async def _end_when_gone(receive: Receive, scope: CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
