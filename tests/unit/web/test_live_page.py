"""What open pages are told: changes only, each once, and all of them to who comes again."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from retrier.web.live_page import LivePage


def told(live: LivePage, version: str) -> Sequence[dict[str, Any]]:
    """Return what a tab with this version is sent."""
    lines = live.since(version).decode().split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_a_tab_that_knows_everything_is_told_nothing() -> None:
    live = LivePage()
    version = live.publish({"a": "1"})

    assert told(live, version) == []


def test_a_tab_is_told_what_changed_and_nothing_else() -> None:
    live = LivePage()
    version = live.publish({"a": "1", "b": "1"})
    live.publish({"a": "2", "b": "1"})

    assert told(live, version) == [{"set": {"a": "2"}}]


def test_what_is_new_is_told_as_new() -> None:
    live = LivePage()
    version = live.publish({"a": "1"})
    live.publish({"a": "1", "b": "1"})

    assert told(live, version) == [{"set": {"b": "1"}, "new": ["b"]}]


def test_the_same_again_is_no_change() -> None:
    live = LivePage()
    version = live.publish({"a": "1"})

    assert live.publish({"a": "1"}) == version


def test_a_count_that_is_gone_is_told_as_zero() -> None:
    live = LivePage()
    version = live.publish({"group/0/x/count": "7"})
    live.publish({})

    assert told(live, version) == [{"set": {"group/0/x/count": "0"}}]


def test_a_group_that_comes_again_is_new_again() -> None:
    live = LivePage()
    live.publish({"group/0/x/count": "7"})
    version = live.publish({})
    live.publish({"group/0/x/count": "1"})

    assert told(live, version) == [{"set": {"group/0/x/count": "1"}, "new": ["group/0/x/count"]}]


def test_counts_that_are_gone_are_forgotten_in_the_end() -> None:
    live = LivePage()
    live.publish({"group/0/x/count": "7"})
    for number in range(200):
        live.publish({"a": str(number)})

    assert told(live, "") == [{"set": {"a": "199"}}]


def test_a_tab_from_far_back_is_told_every_text_that_changed_since() -> None:
    live = LivePage()
    version = live.publish({"a": "0", "b": "0"})
    for number in range(1, 200):
        live.publish({"a": str(number), "b": "0"})

    assert told(live, version) == [{"set": {"a": "199"}}]


@pytest.mark.parametrize("version", ["", "another-7", "-", "x-1-2", "9" * 40])
def test_a_tab_of_another_process_is_told_everything(version: str) -> None:
    live = LivePage()
    live.publish({"a": "1"})

    assert told(live, version) == [{"set": {"a": "1"}}]


def test_a_version_that_is_no_number_is_no_error() -> None:
    live = LivePage()
    epoch = live.publish({"a": "1"}).split("-")[0]

    assert told(live, f"{epoch}-x") == [{"set": {"a": "1"}}]
    assert told(live, f"{epoch}-{'9' * 40}") == []


async def join(live: LivePage) -> None:
    async with live.joined():
        pass


def test_a_process_that_stops_refuses_new_tabs() -> None:
    live = LivePage()
    live.stop()

    with pytest.raises(HTTPException, match="stopped"):
        asyncio.run(join(live))


def test_there_are_places_for_so_many_tabs_and_no_more() -> None:
    live = LivePage(most=0)

    with pytest.raises(HTTPException, match="0 tabs"):
        asyncio.run(join(live))
