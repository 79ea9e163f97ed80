"""Edits that wait for a second person, on the page: what is to be approved, and by whom."""

from collections.abc import Iterator

import pytest

from retrier.domain.access import AccessRole
from retrier.domain.approval import ApprovalRules, ApprovedAct
from retrier.store.engine.database import Database
from tests.support.access import OWN, bearer, rules
from tests.support.api import Api
from tests.support.factories import failure
from tests.support.web import Web

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

EDITOR, SECOND = bearer(AccessRole.ADMIN, is_narrow=True), bearer(AccessRole.ADMIN)
BODY = '{"order": 8}'


@pytest.fixture
def web(database: Database) -> Iterator[Web]:
    approval = ApprovalRules(acts=frozenset({ApprovedAct.EDIT}))
    api = Api(database, rules=rules(), approval=approval)
    made = Web(api)
    yield made
    made.close()
    api.http.close()


@pytest.fixture
def key(web: Web) -> str:
    return web.api.receive(failure(queue=OWN, body=b'{"order": 7}'))[0]


@pytest.fixture
def edit_id(web: Web, key: str) -> str:
    path = f"/api/errors/{key}/edit"
    return str(web.api.http.post(path, headers=EDITOR, json={"body": BODY}).json()["edit_id"])


def test_the_message_says_that_an_edit_waits(web: Web, key: str, edit_id: str) -> None:
    shown = web.http.get(f"/messages/{key}", headers=SECOND).text

    assert "waits for approval" in shown
    assert f"/messages/{key}/edits/{edit_id}/body" in shown


def test_the_body_that_is_to_be_approved_is_a_file(web: Web, key: str, edit_id: str) -> None:
    found = web.http.get(f"/messages/{key}/edits/{edit_id}/body", headers=SECOND)

    assert found.text == BODY
    assert found.headers["content-disposition"] == f'attachment; filename="{edit_id}.json"'


def test_an_edit_of_nobody_has_no_body(web: Web, key: str) -> None:
    path = f"/messages/{key}/edits/0f0f0f0f-0000-4000-8000-000000000001/body"

    assert web.http.get(path, headers=SECOND).status_code == 404


def test_an_operator_finds_out_that_it_takes_who_may_edit(web: Web, edit_id: str) -> None:
    shown = web.http.get("/approvals", headers=bearer(AccessRole.OPERATOR)).text

    assert edit_id
    assert "About an edit or a patch only who may edit decides" in shown
