"""What a worker says about a message it crashed over, in every dialect; what the broker counts."""

from typing import Any

import pytest

from retrier.policy.facts import Facts, facts_of
from tests.support.policies import SomePolicies
from tests.support.raw_messages import (
    RECEIVED_AT,
    delivery,
    nservicebus_headers,
    rabbitmq_headers,
    retrier_headers,
)
from tests.support.understood import failure

DIALECTS = {
    "nservicebus": nservicebus_headers(),
    "retrier": retrier_headers(),
    "rabbitmq": rabbitmq_headers(),
}


def facts(headers: dict[str, Any], **changes: Any) -> Facts:
    return facts_of(failure(delivery(headers, **changes)).details)


def reason(found: Facts) -> str:
    judged = SomePolicies().judge(found, failures=1, now=RECEIVED_AT, dice=lambda: 0.0)
    return judged.reason


@pytest.mark.parametrize("headers", DIALECTS.values(), ids=DIALECTS)
class TestEveryDialect:
    @pytest.mark.parametrize("said", [11, "11"], ids=["a number", "digits"])
    def test_has_how_often_a_worker_crashed(self, headers: dict[str, Any], said: object) -> None:
        assert facts({**headers, "x-caf-worker-retry": said}).crashes == 11

    def test_has_why_a_worker_gave_the_message_up(self, headers: dict[str, Any]) -> None:
        found = facts({**headers, "x-caf-worker-rejected": "RETRIES_EXCEEDED"})

        assert found.rejected == "RETRIES_EXCEEDED"

    def test_says_nothing_of_workers_that_said_nothing(self, headers: dict[str, Any]) -> None:
        found = facts(headers)

        assert (found.crashes, found.rejected) == (0, None)

    @pytest.mark.parametrize(
        "said", [-1, "-2", "many", "", "1" * 50, 2**40, True, None, {"a": 1}, [1], 1.5]
    )
    def test_takes_nothing_else_for_a_count(self, headers: dict[str, Any], said: object) -> None:
        assert facts({**headers, "x-caf-worker-retry": said}).crashes == 0

    def test_cuts_a_word_that_is_no_word(self, headers: dict[str, Any]) -> None:
        found = facts({**headers, "x-caf-worker-rejected": "NO\0" * 5000})

        assert found.rejected is not None
        assert len(found.rejected) <= 1024
        assert "\0" not in found.rejected


class TestAMessageThatTheBrokerHandedOutOften:
    """Its count does not say what its consumer did: an outage of ours would poison everything."""

    @pytest.mark.parametrize("headers", DIALECTS.values(), ids=DIALECTS)
    def test_is_not_poison(self, headers: dict[str, Any]) -> None:
        often = {**headers, "x-delivery-count": 30, "x-acquired-count": 30}

        found = facts(often, redelivered=True)

        assert found == facts(headers)
        assert reason(found) == "handler_exception"

    def test_is_poison_if_it_was_dead_lettered_at_a_delivery_limit(self) -> None:
        died = {"queue": "orders", "reason": "delivery_limit", "count": 1}

        assert reason(facts({"x-death": [died]})) == "poison_message"
