"""Who sees own queues only: nothing of others is in any answer, on both databases."""

from collections.abc import Iterator

import pytest

from retrier.domain.access import AccessRole
from retrier.store.engine.database import Database
from tests.support.access import OTHER, OWN, bearer, rules
from tests.support.api import Api
from tests.support.factories import failure
from tests.unit.api.test_access import ROUTES, ask

NARROW = bearer(AccessRole.OPERATOR, is_narrow=True)


class TestWhoReadsOwnQueuesOnly:
    @pytest.fixture
    def api(self, database: Database) -> Iterator[Api]:
        made = Api(database, rules=rules(reads_own_only=True))
        yield made
        made.http.close()

    def test_sees_no_trace_of_other_queues_in_any_answer(self, api: Api) -> None:
        own, other = api.receive(failure(queue=OWN), failure(queue=OTHER, endpoint="Billing"))
        admin = bearer(AccessRole.ADMIN)
        for key in (own, other):
            api.http.post(f"/api/errors/{key}/retry", headers=admin)
        api.http.post(
            "/api/redirects",
            headers=admin,
            json={"fromphysicaladdress": OTHER, "tophysicaladdress": "elsewhere"},
        )
        reading = [each for each in ROUTES if "GET" in each.methods]

        answers = {each.path: ask(api, each, NARROW) for each in reading}
        texts = {path: each.text.lower() for path, each in answers.items()}

        assert {path for path, each in answers.items() if each.status_code >= 500} == set()
        assert {path for path, text in texts.items() if OTHER in text or other in text} == set()
        assert own in texts["/api/errors"]

    def test_finds_nothing_of_other_queues_by_a_preview(self, api: Api) -> None:
        api.receive(failure(queue=OTHER, exception_message="a secret"))

        found = api.http.post(
            "/api/operations/preview", headers=NARROW, json={"selection": {"text": "a secret"}}
        ).json()

        assert (found["total"], found["skipped"]) == (0, [])

    def test_is_told_nothing_that_is_about_all_queues(self, api: Api) -> None:
        statuses = [
            api.http.get(path, headers=NARROW).status_code for path in ("/api/ledger", "/metrics")
        ]

        assert statuses == [403, 401]

    def test_cannot_open_a_message_of_another_queue(self, api: Api) -> None:
        own, other = api.receive(failure(queue=OWN), failure(queue=OTHER))
        paths = ("errors/{}", "errors/last/{}", "messages/{}/body", "errors/{}/attempts")

        statuses = {
            path: [
                api.http.get(f"/api/{path.format(key)}", headers=NARROW).status_code
                for key in (own, other)
            ]
            for path in paths
        }

        assert statuses == {path: [200, 404] for path in paths}

    def test_counts_nothing_else(self, api: Api) -> None:
        api.receive(failure(queue=OWN), failure(queue=OTHER), failure(queue=OTHER))

        counted = api.http.head("/api/errors", headers=NARROW).headers["Total-Count"]
        (group,) = api.http.get("/api/recoverability/groups", headers=NARROW).json()
        summary = api.http.get("/api/errors/summary", headers=NARROW).json()
        every = api.http.get("/api/errors/summary", headers=bearer(AccessRole.READER)).json()

        assert counted == "1"
        assert group["count"] == 1
        assert summary != every
