"""What who looks may not do is shown disabled with the reason, and nothing else is: on every page."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product

import pytest

from retrier.domain.access import AccessRole
from retrier.domain.approval import ApprovalRules
from retrier.domain.archive_operation import Act
from retrier.store.engine.database import Database
from retrier.web.parts import ACCESS_LINKS, MENUS, NAVIGATION
from tests.support.access import OTHER, OWN, bearer, rules
from tests.support.api import Api
from tests.support.bench import QUEUE, Bench
from tests.support.controls import Controls, controls_of
from tests.support.factories import confirmation, failed_import, failure
from tests.support.old import settle
from tests.support.web import Web

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

_ORIGIN = {"Origin": "http://localhost"}
ADMIN = bearer(AccessRole.ADMIN)
NARROW = bearer(AccessRole.OPERATOR, is_narrow=True)
BELOW_ADMIN = (AccessRole.READER, AccessRole.CONTENT, AccessRole.OPERATOR)
MOST_PAGES = 150
MOST_OF_A_KIND = 2
_ID_PART = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
LINKS = (*NAVIGATION, *(each for menu in MENUS for each in menu.links), *ACCESS_LINKS)
ENDLESS = ("/events/page", "/openapi.json", "/static")


@pytest.fixture
def web(database: Database) -> Iterator[Web]:
    """Give a page on which there is something of each kind."""
    api = Api(database, rules=rules(), approval=ApprovalRules(over=3))
    made = Web(api)
    fill(api)
    made.counts.tick()
    yield made
    made.close()
    api.http.close()


def fill(api: Api) -> None:
    """Let messages fail, and people do what leaves something to be done."""
    one, two, dead, archived, again = api.receive(
        *(failure(queue=OWN, body=b"x" * 100_000) for _ in range(5))
    )
    api.receive(
        failed_import(), *(failure(queue=OTHER, headers={"Shop.Id": "1"}) for _ in range(4))
    )
    settle(api.db, Act.ARCHIVE, [archived])
    ask = api.http.post
    assert ask(f"/api/errors/{dead}/dead", headers=ADMIN, json={"why": "gone"}).is_success
    ask(f"/api/errors/{one}/retry", headers=ADMIN)
    ask(f"/api/errors/{again}/retry", headers=ADMIN)
    (operation, *_) = api.http.get("/api/operations", headers=ADMIN).json()
    api.http.patch(f"/api/operations/{operation['id']}", headers=ADMIN, json={"paused": True})
    ask(f"/api/errors/queues/{OTHER}/retry", headers=bearer(AccessRole.OPERATOR))
    (group, *_) = api.http.get("/api/recoverability/groups", headers=ADMIN).json()
    ask(f"/api/recoverability/groups/{group['id']}/comment?comment=look", headers=ADMIN)
    redirect = {"fromphysicaladdress": "old", "tophysicaladdress": "new"}
    assert ask("/api/redirects", headers=ADMIN, json=redirect).is_success
    assert ask(f"/api/breakers/{OTHER}/open", headers=ADMIN, json={"why": "x"}).is_success
    assert ask("/api/tokens", headers=ADMIN, json={"name": "ci", "role": "reader"}).is_success
    view = {"page": "messages", "query": "queue=orders.eu"}
    api.http.put("/api/views/mine", headers=ADMIN, json=view)
    api.receive(confirmation(again))
    assert two


def look(web: Web, path: str, headers: Mapping[str, str]) -> Controls | None:
    """Return the controls of a page; None if there is none for them."""
    answer = web.http.get(path, headers=headers)
    assert answer.status_code < 500, (path, answer.text)
    is_page = answer.is_success and "text/html" in answer.headers["content-type"]
    return controls_of(answer.text) if is_page else None


def crawl(web: Web) -> Mapping[str, Controls]:
    """Return the pages that an administrator comes to by links, each kind of address once."""
    waiting, found = [each.path for each in LINKS], dict[str, Controls]()
    known = Counter(waiting)
    while waiting and len(found) < MOST_PAGES:
        path = waiting.pop(0)
        shown = look(web, path, ADMIN)
        if shown is None:
            continue
        found[path] = shown
        for each in sorted(each.address for each in shown.enabled if each.method == "GET"):
            kind = _ID_PART.sub("*", each.partition("?")[0])
            if known[kind] < MOST_OF_A_KIND and not kind.startswith(ENDLESS):
                known[kind] += 1
                waiting.append(each)
    return found


@pytest.mark.parametrize("role", AccessRole)
def test_nothing_that_can_be_pressed_is_refused(web: Web, role: AccessRole) -> None:
    headers = {**bearer(role), **_ORIGIN}
    refused, pressed = set(), set()

    for path in crawl(web):
        shown = look(web, path, headers)
        for each in () if shown is None else sorted(shown.enabled, key=str):
            if each in pressed or each.address.startswith(ENDLESS):
                continue
            pressed.add(each)
            if each.method == "GET":
                status = web.http.get(each.address, headers=headers).status_code
            else:
                content = "key=one&reason=&name=x"
                status = web.http.post(each.address, headers=headers, content=content).status_code
            if status == 403:
                refused.add((path, each))

    assert refused == set()
    assert len(pressed) > 50


def test_what_is_disabled_is_shown_to_all_and_says_why(web: Web) -> None:
    silent, hidden = set(), set()
    count = Counter[AccessRole]()

    # All roles look at the pages of one walk, which takes longer than what they look at.
    for role, (path, whole) in product(BELOW_ADMIN, crawl(web).items()):
        shown = look(web, path, bearer(role))
        if shown is None:
            continue
        count[role] += len(shown.disabled)
        for each in shown.disabled:
            if not shown.texts.get(each.described_by):
                silent.add((role, path, each.words))
        posts = {each.address for each in whole.enabled if each.method == "POST"}
        seen = {each.address for each in shown.enabled if each.method == "POST"}
        if len(posts - seen) > len(shown.disabled):
            hidden.add((role, path))

    assert silent == set()
    assert hidden == set()
    assert [role for role in BELOW_ADMIN if count[role] <= 10] == []


def test_an_administrator_finds_nothing_disabled(web: Web) -> None:
    disabled = {path: each.disabled for path, each in crawl(web).items()}

    assert {path for path, each in disabled.items() if each} == set()


def test_on_the_page_of_a_message_of_another_queue_the_queue_is_the_reason(web: Web) -> None:
    (theirs,) = web.api.receive(failure(queue="billing.eu"))
    (mine,) = web.api.receive(failure(queue=OWN))

    shown = look(web, f"/messages/{theirs}", NARROW)
    own = look(web, f"/messages/{mine}", NARROW)

    assert shown is not None
    assert own is not None
    # Nobody below an administrator edits, wherever it failed.
    said = {shown.texts[each.described_by] for each in shown.disabled if each.words != "Edit"}
    assert said == {
        "The token operator-orders has no right to the queue billing.eu, only to orders*."
    }
    assert {"Retry", "Archive", "Declare dead…"} <= {each.words for each in shown.disabled}
    assert [each.words for each in own.disabled] == ["Edit"]


def test_an_operation_of_other_queues_is_neither_approved_nor_steered(web: Web) -> None:
    operations = web.api.http.get("/api/operations", headers=ADMIN).json()

    for each in operations:
        shown = look(web, f"/operations/{each['id']}", NARROW)
        assert shown is not None
        posts = {control.address for control in shown.enabled if control.method == "POST"}
        assert posts == set()
        reasons = {shown.texts[one.described_by] for one in shown.disabled}
        assert {one.split(":")[0] for one in reasons} == {
            "This operation may hold messages of other queues"
        }


def test_who_asked_finds_approve_disabled_and_another_person_does_not(web: Web) -> None:
    asker = look(web, "/approvals", bearer(AccessRole.OPERATOR))
    other = look(web, "/approvals", ADMIN)

    assert asker is not None
    assert other is not None
    words = {each.words: asker.texts[each.described_by] for each in asker.disabled}
    assert "another person must" in words["Approve"]
    assert "another person must" in words["Refuse"]
    assert other.disabled == []


def test_a_page_that_may_not_be_read_keeps_its_place_in_the_bar_and_says_why(web: Web) -> None:
    shown = web.http.get("/", headers=bearer(AccessRole.OPERATOR)).text
    whole = web.http.get("/", headers=ADMIN).text

    assert 'href="/tokens"' in whole
    assert 'href="/tokens"' not in shown
    assert "Tokens<span" in shown
    assert "This takes the role admin, and the token operator-all has the role operator." in shown


def test_without_rules_nothing_is_disabled(database: Database) -> None:
    api = Api(database)
    api.receive(failure())
    web = Web(api)

    shown = look(web, "/messages", {})

    assert shown is not None
    assert shown.disabled == []
    web.close()
    api.http.close()


def test_what_is_over_in_other_queues_is_seen_by_others(web: Web) -> None:
    bench = Bench(web.api.db)
    bench.fail()
    ask = web.api.http.post(f"/api/errors/queues/{QUEUE}/retry", headers=ADMIN).json()
    bench.work()

    shown = look(web, "/history", NARROW)
    whole = look(web, "/history", ADMIN)

    assert shown is not None
    assert whole is not None
    address = f"/operations/{ask['operation_id']}/acknowledge"
    assert address in {each.address for each in whole.enabled}
    assert address not in {each.address for each in shown.enabled}
