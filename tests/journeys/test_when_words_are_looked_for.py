"""Full text, end to end: what failed is found by its words, also after the process was killed."""

import httpx
import pytest

from tests.journeys.conftest import Site
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

COUNT = 30
READ = "SELECT count(*) FROM message_words"
DEADLINE = 60


def found(http: httpx.Client, words: str) -> int:
    ways = http.get("/api/search", params={"q": words}).json()["found"]
    return next((each["count"] for each in ways if each["by"] == "words"), 0)


def test_every_failure_is_found_by_its_words_whenever_the_process_dies(site: Site) -> None:
    site.host.configure("search", text={"enabled": True})
    first = site.host.start_ready()
    site.shop.fail(COUNT)
    wait_until(lambda: site.count(READ) > 0, DEADLINE, "some words are read")
    first.kill()
    site.shop.fail(COUNT)

    second = site.host.start_ready()

    wait_until(lambda: site.count(READ) == 2 * COUNT, DEADLINE, "all words are read")
    with second.http as http:
        assert found(http, '"nothing left"') == 2 * COUNT
