"""Forms are bounded, and lead to pages of ours only."""

import inspect
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import get_args

import pytest
from fastapi.routing import APIRoute

from retrier.api.parts import AT_WORK
from retrier.web.forms import LARGEST_FORM, SentForm
from retrier.web.routes import WORKING
from tests.support.web import Web

SENT_AS = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://localhost"}
FORMS = sorted(
    route.path
    for router in WORKING
    for route in router.routes
    if isinstance(route, APIRoute) and "POST" in route.methods
)


def in_pieces(size: int) -> Iterator[bytes]:
    """Give a form without its length: as many pieces as it takes."""
    yield b"name="
    for _ in range(size // 1024 + 1):
        yield b"a" * 1024


class TestALargeForm:
    @pytest.mark.parametrize("path", FORMS)
    def test_is_refused(self, web: Web, path: str) -> None:
        answer = web.http.post(path, content=b"a" * (LARGEST_FORM + 1), headers=SENT_AS)

        assert answer.status_code == 413

    def test_is_refused_when_it_does_not_say_its_length(self, web: Web) -> None:
        answer = web.http.post("/name", content=in_pieces(LARGEST_FORM), headers=SENT_AS)

        assert answer.status_code == 413
        assert "A form has at most 262,144 bytes" in answer.text

    def test_is_read_up_to_the_bound(self, web: Web) -> None:
        form = b"name=eve&next=%2F&rest="

        answer = web.http.post("/name", content=form.ljust(LARGEST_FORM, b"a"), headers=SENT_AS)

        assert answer.status_code == 303

    def test_is_refused_while_all_places_are_taken(self, web: Web) -> None:
        """So a form that comes slowly keeps no place from others."""
        acts = web.api.app.state.parts.acts

        async def take() -> AsyncExitStack:
            taken = AsyncExitStack()
            for _ in range(AT_WORK):
                await taken.enter_async_context(acts.taken())
            return taken

        taken = web.http.portal.call(take)
        try:
            answer = web.http.post("/name", content=in_pieces(LARGEST_FORM), headers=SENT_AS)
        finally:
            web.http.portal.call(taken.aclose)

        assert answer.status_code == 413


def test_a_form_is_decoded_in_a_thread() -> None:
    _, depends = get_args(SentForm)

    assert not inspect.iscoroutinefunction(depends.dependency)
