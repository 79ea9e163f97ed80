"""What the first page after a start needs is there before somebody asks for it."""

from retrier.web.application import warm_up
from tests.support.factories import failure
from tests.support.web import Web


def test_it_is_done_once_and_before_the_first_count(web: Web) -> None:
    done: list[bool] = []
    web.counts.do_before(lambda: done.append(web.counts.last is None))

    web.counts.tick()
    web.counts.tick()

    assert done == [True]


def test_it_works_with_messages_and_without(web: Web) -> None:
    warm_up(web.parts)
    web.api.receive(failure())

    warm_up(web.parts)

    assert "<title>1 message" in web.get("/messages")
