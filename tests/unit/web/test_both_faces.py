"""What the API and the page refuse, they refuse in the same words."""

from html import unescape

import pytest

from tests.support.web import Web


@pytest.mark.parametrize(
    "condition",
    [
        {"attempts_at_least": "many"},
        {"disposition": "perhaps"},
        {"failed_from": "yesterday"},
        {"failed_from": "1h", "failed_to": "2h"},
        {"status": "unknown"},
        {"status": "dead", "disposition": "manual"},
    ],
    ids="-".join,
)
def test_a_wrong_condition_is_refused_in_the_same_words(
    web: Web, condition: dict[str, str]
) -> None:
    of_api = web.api.http.get("/api/errors", params=condition)
    of_page = web.http.get("/messages", params=condition)

    assert (of_api.status_code, of_page.status_code) == (400, 400)
    # The page begins each sentence with a capital letter.
    assert of_api.json()["detail"][1:] in unescape(of_page.text)


def test_nothing_at_an_address_is_told_in_the_same_words(web: Web) -> None:
    of_api, of_page = web.api.http.get("/api/nothing"), web.http.get("/nothing")

    assert (of_api.status_code, of_page.status_code) == (404, 404)
    assert of_api.json()["detail"][1:] in unescape(of_page.text)
