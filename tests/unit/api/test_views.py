"""Saved views over HTTP."""

import pytest

from tests.support.api import Api

NIGHT = {"page": "messages", "query": "queue=orders&page=2"}


def test_a_view_is_saved_found_and_listed(api: Api) -> None:
    saved = api.http.put("/api/views/night%20shift", json=NIGHT, headers={"X-Retrier-User": "ada"})

    found = api.get("views/night shift")
    assert saved.status_code == 200
    assert saved.json() == found
    assert {name: found[name] for name in ("page", "query", "path", "version")} == {
        "page": "messages",
        "query": "queue=orders",
        "path": "/messages?queue=orders",
        "version": 1,
    }
    assert found["saved_by"].startswith("ada")
    assert api.get("views") == [found]


@pytest.mark.parametrize(("version", "status"), [(None, 409), (7, 409), (1, 200)])
def test_one_that_is_there_is_replaced_only_by_its_version(
    api: Api, version: int | None, status: int
) -> None:
    api.http.put("/api/views/night", json=NIGHT)

    body = {"page": "groups", "query": "by=type", "version": version}
    answer = api.http.put("/api/views/night", json=body)

    assert answer.status_code == status
    assert api.get("views/night")["page"] == ("groups" if status == 200 else "messages")


@pytest.mark.parametrize(
    "body", [{"page": "messages", "query": "colour=red"}, {"page": "nowhere", "query": "queue=a"}]
)
def test_what_cannot_be_kept_is_refused(api: Api, body: dict[str, str]) -> None:
    assert api.http.put("/api/views/night", json=body).status_code == 422
    assert api.get("views") == []


def test_a_view_is_deleted_and_one_that_is_not_there_too(api: Api) -> None:
    api.http.put("/api/views/night", json=NIGHT)

    answers = [api.http.delete("/api/views/night").status_code for _ in range(2)]

    assert answers == [204, 204]
    assert api.http.get("/api/views/night").status_code == 404
