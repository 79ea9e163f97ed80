"""Texts of bodies that hold U+0000: both databases refuse them alike, and the member is named."""

from typing import Any

import pytest

from tests.support.api import Api
from tests.support.factories import failure

N = "a\0b"
ALL = {"all": True}


@pytest.mark.parametrize(
    ("method", "path", "body", "member"),
    [
        ("post", "errors/{key}/edit", {"body": "{}", "why": N}, "why"),
        ("post", "archive_operations", {"act": "archive", "selection": ALL, "why": N}, "why"),
        ("post", "archive_operations/{key}/undo", {"why": N}, "why"),
        ("post", "operations", {"selection": ALL, "why": N}, "why"),
        ("post", "operations", {"selection": ALL, "destination": N}, "destination"),
        ("post", "breakers/{key}/open", {"why": N}, "why"),
        ("post", "breakers/{key}/close", {"why": N}, "why"),
        ("post", "tokens", {"name": N, "role": "admin"}, "name"),
        ("post", "tokens", {"name": "x", "role": "operator", "queues": [N]}, "queues"),
        ("put", "views/x", {"page": "messages", "query": f"text={N}"}, "query"),
        ("post", "streams/s/release?queue=q", {"ids": [N]}, "ids"),
        ("post", "pendingretries/retry/all", {"queue": N}, "queue"),
        (
            "post",
            "pendingretries/queues/retry",
            {"queueaddress": N, "from": "1d", "to": "0s"},
            "queueaddress",
        ),
        ("post", "recovery/retry", {"queue": N}, "queue"),
        ("post", "redirects", {"fromphysicaladdress": N, "tophysicaladdress": "x"}, "physical"),
        ("post", "redirects", {"fromphysicaladdress": "x", "tophysicaladdress": N}, "physical"),
        ("post", "errors/{key}/dead", {"why": N}, "why"),
        ("post", "imports/try", {"ids": [N]}, "ids"),
        ("post", "imports/try", {"error_queue": N}, "error_queue"),
        ("post", "operations/{key}/approve", {"plan_hash": N}, "plan_hash"),
    ],
)
def test_is_refused_and_named(api: Api, method: str, path: str, body: Any, member: str) -> None:
    (key,) = api.receive(failure())

    answer = api.http.request(method, f"/api/{path.format(key=key)}", json=body)

    assert answer.status_code in (400, 422)
    assert member in answer.text
