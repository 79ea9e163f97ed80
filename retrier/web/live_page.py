"""What open pages are told: small texts by key, replaced where the page shows them.

Each change is encoded once for all tabs. A tab that comes later, or again, is sent what changed
since the version it has.
"""

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

from starlette.types import Send

from retrier.domain.values import dataclass
from retrier.http.live_answer import Readers, happens, part

MOST_TABS = 500
"""Tabs that one process serves at the same time."""
COUNT, NONE = "/count", "0"
"""How the keys of counts end, and what those say that have nothing to count."""
OPEN = "/open"
"""How the keys of counts end that are never told to be empty only because they are missing."""
_KEPT = 120
"""Changes in memory; who comes from further back is sent every text that changed since."""
_MOST_DIGITS = 12
_BEGINNING = "retry: 2000\n\n"
_COMMENT = ": nothing new\n\n"


@dataclass(frozen=True, slots=True)
class _Text:
    text: str
    version: int
    born: int


class LivePage:
    """The texts of one process, and the tabs that show them.

    `publish` and `since` may be called by any thread; tabs belong to the event loop.
    """

    def __init__(self, most: int = MOST_TABS) -> None:
        self._epoch = uuid4().hex[:8]
        self._lock = threading.Lock()
        self._number = 0
        self._texts: dict[str, _Text] = {}
        self._changes: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tabs = Readers(most, "tabs follow this process")
        self._changed = asyncio.Event()

    @property
    def version(self) -> str:
        """The version of the texts now."""
        return f"{self._epoch}-{self._number}"

    def publish(self, texts: Mapping[str, str]) -> str:
        """Take these as the texts from now on, and tell the tabs what changed.

        Return their version: a page that shows them is told what changes from there on.
        """
        with self._lock:
            now = {**self._emptied(texts), **texts}
            changed = {key: text for key, text in now.items() if self._text(key) != text}
            if changed or now.keys() != self._texts.keys():
                self._take(now, changed)
        self._wake()
        return self.version

    def stop(self) -> None:
        """End all answers, and refuse new tabs; any thread may call it."""
        self._tabs.is_over = True
        self._wake()

    def since(self, version: str) -> bytes:
        """Return what a tab with this version does not know; nothing if it knows everything."""
        epoch, _, digits = version.partition("-")
        if epoch != self._epoch or not digits.isdecimal():
            with self._lock:
                return self._all_since(0, ())
        with self._lock:
            return self._since(int(digits[:_MOST_DIGITS]))

    def _since(self, number: int) -> bytes:
        if number >= self._number:
            return b""
        kept = [encoded for at, encoded in self._changes if at > number]
        if len(kept) == self._number - number:
            return b"".join(kept)
        return self._all_since(number, self._born(number))

    async def follow(self, version: str, send: Send, note_reader: Callable[[], None]) -> None:
        """Write what changes until the service stops; note each time that there is a reader."""
        await send(part(_BEGINNING.encode()))
        while not self._tabs.is_over:
            note_reader()
            changed = self._changed
            now = self.version
            if news := self.since(version):
                version = now
                await send(part(news))
            elif not await happens(changed):
                await send(part(_COMMENT.encode()))

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[None]:
        """Be a tab while the context is open. Raises HTTPException if there is no place left."""
        with self._tabs.joined():
            self._loop = asyncio.get_running_loop()
            yield

    def _text(self, key: str) -> str | None:
        known = self._texts.get(key)
        return None if known is None else known.text

    def _emptied(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Return the counts of what is not counted any more: they are 0, and told for a while."""
        lately = self._number - _KEPT
        return {
            key: NONE
            for key, each in self._texts.items()
            if key.endswith(COUNT)
            and key not in texts
            and (each.text != NONE or each.version > lately)
        }

    def _take(self, texts: Mapping[str, str], changed: Mapping[str, str]) -> None:
        number, known = self._number + 1, self._texts
        self._texts = {
            key: _Text(text, number, self._birth(key, number)) if key in changed else known[key]
            for key, text in texts.items()
        }
        encoded = _encode(self._epoch, number, changed, self._born(number - 1))
        self._changes.append((number, encoded))
        self._number = number

    def _birth(self, key: str, number: int) -> int:
        """Return when a text was born: a count that had become empty is new again."""
        known = self._texts.get(key)
        if known is None or (known.text == NONE and key.endswith((COUNT, OPEN))):
            return number
        return known.born

    def _born(self, after: int) -> tuple[str, ...]:
        return tuple(key for key, each in self._texts.items() if each.born > after)

    def _all_since(self, number: int, born: tuple[str, ...]) -> bytes:
        texts = {key: each.text for key, each in self._texts.items() if each.version > number}
        return _encode(self._epoch, self._number, texts, born)

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None:
            # A loop that is closed has no tabs any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._set_changed)

    def _set_changed(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _encode(epoch: str, number: int, texts: Mapping[str, str], born: tuple[str, ...]) -> bytes:
    content = {"set": texts, "new": born} if born else {"set": texts}
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return f"id: {epoch}-{number}\ndata: {data}\n\n".encode()
