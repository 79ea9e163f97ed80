"""GET policies: the set in force, its rules in order, and who judges by which."""

from datetime import UTC, datetime, timedelta

import pytest

from retrier.api.policies import shown_policies
from retrier.api.requests import show_duration
from retrier.policy.policy_set import InForce, PolicySet
from retrier.settings import check_policies, make_definition
from retrier.store.policies import ToldSet, tell_set
from retrier.store.processes import note_process
from tests.support.api import Api
from tests.support.factories import ERROR_QUEUE, failure
from tests.support.processes import process

NOW = datetime(2026, 11, 23, tzinfo=UTC)
CONTENT = {
    "notices": "retrier.dead",
    "classify": [{"exception": "Shop.*", "message": "5..", "reason": "GW_5XX"}],
    "rules": [
        {"name": "a", "match": {"queue": "pay*"}, "preset": "gateway", "then": "manual"},
        {"name": "b", "match": {}, "preset": "outbox"},
        {
            "name": "c",
            "match": {},
            "attempts": 2,
            "backoff": {"kind": "linear", "first": "1s", "step": "90s", "cap": "1h"},
        },
        {"name": "d", "match": {}, "preset": "cooldown", "cooldown": "1500ms", "attempts": 1},
        {
            "name": "e",
            "match": {},
            "attempts": 100,
            "backoff": {"kind": "list", "delays": ["1s", "1d"]},
        },
        {
            "name": "f",
            "match": {},
            "attempts": 2,
            "backoff": {"kind": "linear", "first": "1s", "step": "1s"},
        },
    ],
}
SET = PolicySet(make_definition(check_policies(CONTENT, frozenset())))


def shown(problems: tuple[str, ...] = ()) -> dict[str, object]:
    return shown_policies(
        InForce(policies=SET, is_configured=True, loaded_at=NOW, problems=problems), ()
    )


def test_without_policies_it_says_so(api: Api) -> None:
    found = api.get("policies")

    assert (found["configured"], found["valid"], found["rules"]) == (False, True, [])
    assert found["processes"] == []


def test_the_processes_that_judge_are_shown(api: Api) -> None:
    told = ToldSet(
        session_id="5e551011-0000-4000-8000-000000000001",
        instance="retrier",
        host="host",
        pid=7,
        set_hash=SET.hash,
        file_time=None,
        loaded_at=NOW,
        problems=("policies.default: must be wait or dead",),
    )
    tell_set(api.db, told)

    (process,) = api.get("policies")["processes"]

    assert process["set_hash"] == SET.hash
    assert process["problems"] == ["policies.default: must be wait or dead"]
    assert process["loaded_at"] == "2026-11-23T00:00:00.000000Z"
    assert "file_time" not in process


def test_processes_that_differ_are_named_also_where_one_has_no_policies(api: Api) -> None:
    for pid, set_hash in ((1, ""), (7, "99352f53aa")):
        note_process(api.db, process(pid=pid, set_hash=set_hash))

    found = api.http.get("/api/policies").json()

    assert found["differences"] == [
        "policies differ: none (process 1 on one); set 99352f53 (process 7 on one)"
    ]


def test_the_rules_are_shown_in_their_order() -> None:
    rules = shown()["rules"]

    assert [rule["name"] for rule in rules] == list("abcdef")
    assert rules[0] == {
        "name": "a",
        "match": {"queue": ["pay*"]},
        "attempts": 3,
        "backoff": {"kind": "exponential", "first": "5s", "factor": 2.0},
        "jitter": {"additive": "5s"},
        "never": [],
        "only": ["GW_5XX", "GW_TIMEOUT", "IO_ERROR", "UNKNOWN"],
        "then": "manual",
        "stream": None,
        "delays": [{"shortest": 5.0, "longest": 10.0}, {"shortest": 10.0, "longest": 15.0}],
    }


def test_each_backoff_is_shown_as_it_may_be_written() -> None:
    found = [rule["backoff"] for rule in shown()["rules"]]

    assert found[1:] == [
        {"kind": "exponential", "first": "1m", "factor": 2.0, "cap": "1h"},
        {"kind": "linear", "first": "1s", "step": "90s", "cap": "1h"},
        {"kind": "fixed", "first": "1500ms"},
        {"kind": "list", "delays": ["1s", "1d"]},
        {"kind": "linear", "first": "1s", "step": "1s"},
    ]


def test_of_many_delays_the_first_are_shown() -> None:
    assert len(shown()["rules"][4]["delays"]) == 50


def test_reasons_and_problems_are_shown() -> None:
    found = shown(problems=("it is wrong",))

    assert found["classify"] == [{"reason": "GW_5XX", "exception": ["Shop.*"], "message": "5.."}]
    assert (found["valid"], found["problems"]) == (False, ["it is wrong"])
    assert (found["set_hash"], found["notices"]) == (SET.hash, "retrier.dead")


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0ms"),
        (timedelta(milliseconds=1500), "1500ms"),
        (timedelta(seconds=90), "90s"),
        (timedelta(hours=24), "1d"),
    ],
)
def test_a_duration_is_shown_in_its_largest_whole_unit(duration: timedelta, text: str) -> None:
    assert show_duration(duration) == text


class TestASimulation:
    def test_says_what_would_be_decided(self, api: Api) -> None:
        (key,) = api.receive(failure(queue="pay"))

        found = simulate(api, policies=CONTENT)

        assert (found["judged"], found["changed"]) == (1, 1)
        assert found["counts"] == [
            {"old": OLD, "new": {"rule": "a", "decision": "manual"}, "count": 1}
        ]
        (sample,) = found["samples"]
        assert (sample["id"], sample["queue"], sample["failures"]) == (key, "pay", 1)
        why = sample["new"]["why"]
        assert why.startswith("failed with handler_exception, and rule a retries only GW_5XX, ")
        assert "stopped" not in found

    def test_without_policies_asks_those_in_force(self, api: Api) -> None:
        api.receive(failure())

        found = simulate(api)

        assert (found["judged"], found["samples"]) == (1, [])

    def test_names_every_problem_with_its_place(self, api: Api) -> None:
        answer = api.http.post(
            "/api/policies/simulate", json={"policies": {"default": "no", "notices": ERROR_QUEUE}}
        )

        assert answer.status_code == 422
        assert sorted(each["field"] for each in answer.json()["errors"]) == [
            "body.policies.default",
            "body.policies.notices",
        ]

    def test_is_alone(self, api: Api) -> None:
        parts = api.app.state.parts

        with parts.simulating:
            answer = api.http.post("/api/policies/simulate", json={})

        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")

    @pytest.mark.parametrize("body", [{"since": "long"}, {"rules": []}, {"policies": []}])
    def test_takes_nothing_else(self, api: Api, body: dict[str, object]) -> None:
        assert api.http.post("/api/policies/simulate", json=body).status_code == 422


OLD = {"decision": "manual"}


def simulate(api: Api, **body: object) -> dict[str, object]:
    answer = api.http.post("/api/policies/simulate", json={"since": "3650d", **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found
