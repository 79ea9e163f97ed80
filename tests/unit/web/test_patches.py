"""A patch on the page: what it would make is shown before anything is sent."""

import json
from typing import Any

import pytest

from retrier.domain.patches import PatchRefusal
from tests.support.factories import failure
from tests.support.patching import BODY, PATCH
from tests.support.web import Web, forms_of

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

TEXT = json.dumps(PATCH)


def fail(web: Web, *bodies: bytes) -> list[str]:
    return web.api.receive(*(failure(body=body, headers={"X-Old": "1"}) for body in bodies))


def operations(web: Web) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = web.api.get("operations")
    return [each for each in found if each["retry_type"] != "byPolicy"]


def send(web: Web, path: str = "/retry", page: str = "", **fields: str) -> Any:
    return web.post(path, {**web.form(page or path, path), **fields})


def shown_again(answer: Any, path: str = "/retry") -> dict[str, str]:
    """Return the fields of the form under what the patch would make."""
    assert answer.status_code == 200, answer.text
    return {**forms_of(answer.text)[path], "patch": TEXT}


def test_a_patch_is_tried_out_before_anything_is_sent(web: Web) -> None:
    fail(web, BODY, b"plain")

    answer = send(web, patch=TEXT)

    assert answer.status_code == 200
    assert operations(web) == []
    assert str(PatchRefusal.NO_JSON) in answer.text
    assert "X-Region" in answer.text
    assert "&#34;order&#34;:8" in answer.text


def test_what_was_shown_is_sent(web: Web) -> None:
    fail(web, BODY)
    shown = send(web, patch=TEXT, rate="50")

    form = shown_again(shown)
    answer = web.post("/retry", form)

    assert answer.status_code == 303
    (asked,) = operations(web)
    assert asked["rate"] == 50
    assert web.api.get(f"operations/{asked['id']}")["patch"] == PATCH


def test_another_patch_than_was_shown_is_shown_first(web: Web) -> None:
    fail(web, BODY)
    form = shown_again(send(web, patch=TEXT))

    answer = web.post("/retry", {**form, "patch": '{"headers": {"remove": ["X-Old"]}}'})

    assert answer.status_code == 200
    assert operations(web) == []


def test_a_patch_that_is_taken_out_again_is_no_plan_of_anything(web: Web) -> None:
    fail(web, BODY)
    form = shown_again(send(web, patch=TEXT))

    answer = web.post("/retry", {**form, "patch": ""})

    assert answer.status_code == 409
    assert operations(web) == []


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"body": [], "body": []}', '{"body": {"replace": 1}}']
)
def test_a_wrong_patch_is_refused(web: Web, text: str) -> None:
    fail(web, BODY)

    answer = send(web, patch=text)

    assert answer.status_code == 400
    assert operations(web) == []


def test_a_group_is_sent_with_a_patch(web: Web) -> None:
    fail(web, BODY)
    (group,) = [each["id"] for each in web.api.get("recoverability/groups")]
    path = f"/groups/{group}/retry"

    form = shown_again(send(web, path, patch=TEXT), path)
    web.post(path, form)

    (asked,) = operations(web)
    assert asked["patch_hash"]


def test_selected_messages_are_sent_with_a_patch(web: Web) -> None:
    (key,) = fail(web, BODY)
    page = f"/messages/selected?act=retry&id={key}"

    form = shown_again(send(web, "/messages/retry", page, patch=TEXT), "/messages/retry")
    web.post("/messages/retry", form)

    (asked,) = operations(web)
    assert asked["patch_hash"]


def test_the_operation_names_the_hash_of_its_patch(web: Web) -> None:
    fail(web, BODY)
    web.post("/retry", shown_again(send(web, patch=TEXT)))
    (asked,) = operations(web)

    assert asked["patch_hash"] in web.get(f"/operations/{asked['id']}")


def test_hostile_texts_of_a_sample_are_shown_and_not_run(web: Web) -> None:
    fail(web, b'{"order": "<script>alert(1)</script>"}')

    answer = send(web, patch=TEXT)

    assert "<script>alert(1)</script>" not in answer.text
