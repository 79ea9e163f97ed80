"""ETag and If-None-Match: a client that polls is told when nothing has changed."""

import pytest

from retrier.api.answers import SERVICECONTROL_VERSION
from retrier.domain.failed_message import FailedMessageStatus
from tests.support.api import Api
from tests.support.factories import failure

# What a database does here is the same on each: the routes are what is tested.
pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

PATHS = ["errors", "recoverability/groups/", "operations", "batches", "eventlogitems"]


@pytest.mark.parametrize("path", PATHS)
def test_what_has_not_changed_is_not_sent_again(api: Api, path: str) -> None:
    api.receive(failure())
    first = api.http.get(f"/api/{path}")

    again = api.http.get(f"/api/{path}", headers={"If-None-Match": first.headers["ETag"]})

    assert again.status_code == 304
    assert again.content == b""


def test_not_changed_has_the_headers_all_the_same(api: Api) -> None:
    api.receive(failure())
    first = api.http.get("/api/errors")

    again = api.http.get("/api/errors", headers={"If-None-Match": first.headers["ETag"]})

    names = {"ETag", "Total-Count", "Cache-Control", "Vary", "X-Particular-Version"}
    assert {name: again.headers[name] for name in names} == {
        name: first.headers[name] for name in names
    }


@pytest.mark.parametrize("known", ['W/{}, "other"', '"other",{}', "*"])
def test_an_etag_is_found_among_others(api: Api, known: str) -> None:
    etag = api.http.get("/api/errors").headers["ETag"]

    again = api.http.get("/api/errors", headers={"If-None-Match": known.format(etag)})

    assert again.status_code == 304


def test_an_etag_is_quoted(api: Api) -> None:
    etag = api.http.get("/api/errors").headers["ETag"]

    assert etag[0] == etag[-1] == '"'


@pytest.mark.parametrize("path", ["errors", "recoverability/groups/"])
def test_another_message_changes_the_etag(api: Api, path: str) -> None:
    before = api.http.get(f"/api/{path}").headers["ETag"]

    api.receive(failure())

    assert api.http.get(f"/api/{path}").headers["ETag"] != before


def test_a_message_behind_the_page_changes_the_etag(api: Api) -> None:
    kept, other = api.receive(failure(), failure())
    first = min(kept, other)
    page = {"per_page": 1, "sort": "id", "direction": "asc", "status": "unresolved"}
    before = api.http.get("/api/errors", params=page).headers["ETag"]

    api.set_status(other if first == kept else kept, FailedMessageStatus.ARCHIVED)

    assert api.http.get("/api/errors", params=page).headers["ETag"] != before


def test_every_answer_names_the_version_of_servicecontrol(api: Api) -> None:
    paths = ["", "errors", "errors/unknown", "no/such/address", "errors?modified=x"]

    versions = {api.http.get(f"/api/{path}").headers["X-Particular-Version"] for path in paths}

    assert versions == {SERVICECONTROL_VERSION}


def test_lists_are_kept_by_the_client_only_and_asked_for_each_time(api: Api) -> None:
    headers = api.http.get("/api/errors").headers

    assert headers["Cache-Control"] == "private, max-age=0"
    assert headers["Vary"] == "Accept"
