"""Forms are bounded, and lead to pages of ours only."""

import inspect
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from html import unescape
from typing import get_args
from urllib.parse import parse_qsl

import pytest
from fastapi.routing import APIRoute

from retrier.http.parts import AT_WORK
from retrier.web.application import WORKING
from retrier.web.forms import LARGEST_FORM, SentForm, local
from tests.support.factories import failure
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
    def test_is_refused(self, web: Web) -> None:
        large = b"a" * (LARGEST_FORM + 1)
        answers = {path: web.http.post(path, content=large, headers=SENT_AS) for path in FORMS}

        assert [path for path, answer in answers.items() if answer.status_code != 413] == []

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


ELSEWHERE = [
    "//evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "/\r/evil.example",
    "\t//evil.example",
    "/\x00/evil.example",
    "/\x7f/evil.example",
    "/\\evil.example",
    "/\t\\evil.example",
    "/x\\..//evil.example",
    "https://evil.example",
    "javascript:alert(1)",
    "evil.example",
    "",
]
"""What browsers take for an address of another site, or may."""
SOME_ELSEWHERE = ("//evil.example", "/\t\\evil.example", "javascript:alert(1)")
"""One of each kind, for pages: that they ask `local`, which knows all of them."""


ADDRESS = re.compile(r'(?:href|action|name="(?:next|back)" value)="([^"]*)"')


def leads_away(html: str) -> list[str]:
    """Return the addresses in links and forms that a browser takes for those of another site."""
    found = [unescape(each) for each in ADDRESS.findall(html)]
    read = [re.sub(r"[\t\n\r]", "", each).replace("\\", "/") for each in found]
    return [each for each in read if not each.startswith(("/", "#")) or each.startswith("//")]


class TestAnAddressOfAnotherSite:
    @pytest.mark.parametrize("address", ELSEWHERE)
    def test_is_none_of_ours(self, address: str) -> None:
        assert local(address, "/groups") == "/groups"

    @pytest.mark.parametrize("address", ["/", "/messages?text=a%09b%5C&page=2", "/streams/one"])
    def test_is_no_other_address(self, address: str) -> None:
        assert local(address, "/groups") == address

    @pytest.mark.parametrize("address", SOME_ELSEWHERE)
    def test_is_no_link_of_any_page(self, web: Web, address: str) -> None:
        (message,) = web.api.receive(failure())
        group = web.api.get("recoverability/groups")[0]["id"]
        pages = [
            (f"/messages/{message}/retry", "back"),
            (f"/groups/{group}/retry", "back"),
            (f"/groups/{group}/comment", "back"),
            ("/messages/selected?act=archive&all=1", "back"),
            ("/name", "next"),
        ]

        for path, name in pages:
            given = [*parse_qsl(path.partition("?")[2]), (name, address)]
            assert leads_away(web.http.get(path, params=dict(given)).text) == []

    @pytest.mark.parametrize("address", SOME_ELSEWHERE)
    def test_is_not_gone_to_by_any_form(self, web: Web, address: str) -> None:
        for path in ("/name", "/imports/selected/delete", "/retry"):
            answer = web.post(path, {"next": address, "key": "k", "name": "eve", "id": "x"})

            assert "evil.example" not in answer.text + answer.headers.get("Location", "")
