"""Policies on the page: what is in force, who judges by which set, and a simulation of others."""

from datetime import UTC, datetime

import httpx
import pytest

from retrier.clock import SystemClock
from retrier.policy.policy_set import InForce, PolicySet
from retrier.settings import check_policies, make_definition
from retrier.store.policies import ToldSet, tell_set
from retrier.web.policies import EXAMPLE
from tests.support.factories import failure
from tests.support.web import Web

NOW = datetime(2026, 5, 4, tzinfo=UTC)
TIMEOUTS = {
    "name": "timeouts",
    "match": {"exception": "*Timeout*"},
    "attempts": 3,
    "backoff": {"kind": "list", "delays": ["1m", "5m"]},
}
TRIED = """
policies:
  rules:
    - {name: keys, match: {exception: KeyError}, preset: outbox}
"""


def put_in_force(web: Web, *problems: str, **content: object) -> PolicySet:
    section = check_policies({"rules": [TIMEOUTS], **content}, frozenset())
    policies = PolicySet(make_definition(section))
    web.in_force = InForce(
        policies=policies, is_configured=True, loaded_at=NOW, file_time=NOW, problems=problems
    )
    return policies


def tell(web: Web, set_hash: str, *problems: str) -> None:
    told = ToldSet(
        session_id="5e551011-0000-4000-8000-000000000001",
        instance="retrier",
        host="north",
        pid=7,
        set_hash=set_hash,
        file_time=NOW,
        loaded_at=NOW,
        problems=problems,
    )
    tell_set(web.api.db, told)


def simulate(web: Web, text: str = TRIED, since: str = "7d") -> httpx.Response:
    return web.post("/policies/simulate", {"policies": text, "since": since})


def test_without_policies_it_says_what_that_means(web: Web) -> None:
    assert "every failed message waits for a person" in web.get("/policies")


def test_rules_are_told_with_their_delays(web: Web) -> None:
    put_in_force(web)

    html = web.get("/policies")

    assert "1 rule decides what is retried by itself" in html
    assert "exception *Timeout*" in html
    assert "after 1 5 minutes, then dead" in html


def test_the_set_is_named_by_its_hash(web: Web) -> None:
    policies = put_in_force(web)

    assert f'<b class="mono">{policies.hash[:8]}</b>' in web.get("/policies")


def test_reasons_of_the_settings_are_shown(web: Web) -> None:
    put_in_force(web, classify=[{"exception": "Shop.*", "message": "5..", "reason": "GW_5XX"}])

    html = web.get("/policies")

    assert "GW_5XX" in html
    assert "exception Shop.*; message has 5.." in html


def test_a_file_that_is_not_in_force_says_why(web: Web) -> None:
    put_in_force(web, "policies.rules[0].attempts: must be a number")

    assert "A newer file is not in force" in web.get("/policies")


def test_each_process_is_shown_with_its_set_and_its_problems(web: Web) -> None:
    put_in_force(web)
    tell(web, "f" * 64, "policies.rules[0]: wrong")

    html = web.get("/policies")

    assert "ffffffff" in html
    assert "another set" in html
    assert "policies.rules[0]: wrong" in html


def test_a_process_with_the_same_set_is_not_marked(web: Web) -> None:
    tell(web, put_in_force(web).hash)

    assert "another set" not in web.get("/policies")


def test_the_form_holds_the_section_of_the_present_file(web: Web) -> None:
    web.policy_text = "policies: {rules: []} # ours"

    assert "policies: {rules: []} # ours</textarea>" in web.get("/policies")


def test_without_a_file_the_form_holds_an_example_that_can_be_simulated(web: Web) -> None:
    assert "name: timeouts" in web.get("/policies")
    assert simulate(web, EXAMPLE).status_code == 200


def test_a_simulation_shows_old_against_new_with_samples(web: Web) -> None:
    now = SystemClock().now()
    key, _ = web.api.receive(
        failure(exception_type="KeyError", received_at=now),
        failure(exception_type="Other", received_at=now),
    )

    html = simulate(web).text

    assert "1 of 2 failures" in html
    assert "scheduled, by keys" in html
    assert "waits for a person" in html
    assert f'href="/messages/{key}"' in html


def test_a_simulation_keeps_what_was_pasted(web: Web) -> None:
    assert "name: keys" in simulate(web).text


def test_a_simulation_of_nothing_says_so(web: Web) -> None:
    assert "No failure was stored in that time." in simulate(web).text


def test_the_section_may_be_pasted_without_its_name(web: Web) -> None:
    assert simulate(web, "rules: []").status_code == 200


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rules: [{name: a}]", "rules[0]"),
        ("rules: [", "line 1"),
        ("just words", "policies"),
        ("a: &x [1]\nb: *x", "alias"),
        # Reading all of these levels would take many minutes.
        ("[" * 65_000, "more than 50 levels"),
    ],
)
def test_what_is_wrong_is_told_beside_the_form(web: Web, text: str, problem: str) -> None:
    answer = simulate(web, text)

    assert answer.status_code == 422
    assert "These policies are wrong" in answer.text
    assert problem in answer.text


def test_too_long_a_text_is_refused(web: Web) -> None:
    assert simulate(web, "#" * 70_000).status_code == 413


def test_one_simulation_runs_at_a_time(web: Web) -> None:
    simulating = web.api.app.state.parts.simulating
    with simulating:
        assert simulate(web).status_code == 503

    assert simulate(web).status_code == 200


def test_a_simulation_changes_nothing(web: Web) -> None:
    web.api.receive(failure(exception_type="KeyError"))
    before = web.api.get("errors")

    simulate(web)

    assert web.api.get("errors") == before
    assert web.api.get("policies")["rules"] == []


def test_what_is_pasted_is_shown_harmlessly(web: Web) -> None:
    html = simulate(web, "</textarea><script>alert(1)</script>").text

    assert "<script>alert" not in html
