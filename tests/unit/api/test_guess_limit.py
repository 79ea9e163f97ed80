"""Who guesses too often is turned away before anything is built for the request."""

import asyncio
from typing import Any

from starlette.types import Receive, Scope, Send

from retrier.domain.access import AccessRole, AccessRules, AccessToken, hash_secret, make_token
from retrier.http.access import Gate, GuessLimit
from tests.support.frozen_clock import FrozenClock

KNOWN = make_token(lambda length: b"\x2a" * length)
WRONG = make_token(lambda length: b"\x07" * length)
RULES = AccessRules(
    tokens=(AccessToken(name="deploy", sha256=hash_secret(KNOWN), role=AccessRole.ADMIN),)
)


class Behind:
    """What is behind the limit, after an address has used up its second."""

    def __init__(self, rules: AccessRules | None = RULES) -> None:
        self.reached = 0
        self.waited: list[float] = []
        self.clock = FrozenClock()
        self.gate = Gate(rules=rules, clock=self.clock)
        self.limit = GuessLimit(self._answer, self.gate, self._wait)

    def guess(self, times: int, address: str = "10.0.0.7") -> None:
        for _ in range(times):
            self.gate._guesses.add(address)  # noqa: SLF001 - without a database

    def ask(self, address: str = "10.0.0.7", **headers: str) -> int:
        """Return the status; 200 if it came through."""
        told: list[Any] = []

        async def receive() -> Any:
            return {}

        async def send(message: Any) -> None:
            told.append(message)

        scope = {
            "type": "http",
            "client": (address, 1),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        asyncio.run(self.limit(scope, receive, send))
        return int(told[0]["status"])

    async def _answer(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self.reached += 1
        await send({"type": "http.response.start", "status": 200})

    async def _wait(self, seconds: float) -> None:
        self.waited.append(seconds)


def test_a_wrong_token_after_ten_in_a_second_is_turned_away_and_waits() -> None:
    behind = Behind()
    behind.guess(9)
    assert behind.ask(authorization=f"Bearer {WRONG}") == 200
    behind.guess(1)

    assert behind.ask(authorization=f"Bearer {WRONG}") == 429
    assert (behind.reached, behind.waited) == (1, [1.0])


def test_a_wrong_session_is_turned_away_too() -> None:
    behind = Behind()
    behind.guess(10)

    assert behind.ask(cookie="retrier_session=abc; other=1") == 429


def test_a_known_token_comes_through_whoever_guesses_behind_its_address() -> None:
    behind = Behind()
    behind.guess(10)

    assert behind.ask(authorization=f"Bearer {KNOWN}") == 200
    assert behind.ask(authorization=f"bearer  {KNOWN}") == 200


def test_who_shows_nothing_and_who_comes_from_elsewhere_come_through() -> None:
    behind = Behind()
    behind.guess(10)

    assert behind.ask() == 200
    assert behind.ask("10.0.0.8", authorization=f"Bearer {WRONG}") == 200


def test_a_second_later_it_may_guess_again() -> None:
    behind = Behind()
    behind.guess(10)
    behind.clock.advance(1)

    assert behind.ask(authorization=f"Bearer {WRONG}") == 200


def test_who_goes_on_guessing_is_looked_at_ten_times_a_second_on_all_connections_together() -> None:
    behind = Behind()
    behind.guess(10)
    behind.clock.advance(1)

    # None of them has been found to be wrong yet
    told = [behind.ask(authorization=f"Bearer {WRONG}") for _ in range(50)]

    assert (told.count(200), told.count(429)) == (10, 40)


def test_a_known_token_takes_no_place_of_those_that_are_looked_at() -> None:
    behind = Behind()
    behind.guess(10)
    behind.clock.advance(1)

    for _ in range(20):
        assert behind.ask(authorization=f"Bearer {KNOWN}") == 200
    assert behind.ask(authorization=f"Bearer {WRONG}") == 200


def test_who_has_not_guessed_may_show_many_at_once() -> None:
    behind = Behind()
    behind.guess(10)
    behind.clock.advance(2)

    told = [behind.ask(authorization=f"Bearer {WRONG}") for _ in range(50)]

    assert told == [200] * 50


def test_without_access_nobody_is_turned_away() -> None:
    behind = Behind(rules=None)
    behind.guess(100)

    assert behind.ask(authorization=f"Bearer {WRONG}") == 200
