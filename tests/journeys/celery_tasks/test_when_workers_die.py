"""Celery workers that are killed between what Retrier publishes and what Celery acknowledges."""

from collections.abc import Callable

import pytest

from tests.support.celery_site import messages, retry_all, wait_for_status
from tests.support.celery_workers import DEADLINE, CeleryShop
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.rabbitmq, pytest.mark.journey, pytest.mark.kills]


@pytest.fixture(params=["prefork", "threads"])
def pool(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def attempts(service: Service) -> list[int]:
    """Return how often each failed message has failed; none while the service only begins."""
    with service.http as http:
        answer = http.get("/api/errors")
    found = answer.json() if answer.is_success else []
    return [each["number_of_processing_attempts"] for each in found]


@pytest.mark.parametrize("task", ["shop.pack", "shop.pack_late"])
def test_a_failure_that_was_published_is_one_message(
    task: str, pool: str, open_shop: Callable[..., CeleryShop], service: Service
) -> None:
    # Given a worker that is killed when it has published a failure, and before it acknowledges;
    # and another node of the app, which may be given the same message again
    shop = open_shop()
    shop.break_down()
    shop.die_after("failure_published")
    shop.start(pool, node="w1@%h")
    failed = shop.send(task, 1)
    shop.wait_for_death()
    shop.start(pool, node="w2@%h")
    published = 1 if task == "shop.pack" else 2
    shop.wait_for(f"failure_published {task}", times=published)
    wait_until(lambda: attempts(service) == [published], DEADLINE, f"not {published} attempts")

    # When it is retried
    shop.repair()
    retry_all(service)

    # Then it runs once, and is resolved
    wait_for_status(service, "resolved", failed)
    assert shop.told.count(f"packed {failed} 1") == 1
    assert len(attempts(service)) == 1


def test_a_retry_that_was_confirmed_may_run_again_and_stays_resolved(
    pool: str, open_shop: Callable[..., CeleryShop], service: Service
) -> None:
    # Given a task that failed, and is acknowledged after the work
    shop = open_shop()
    shop.break_down()
    shop.start(pool)
    failed = shop.send("shop.pack_late", 1)
    wait_for_status(service, "unresolved", failed)

    # When its worker is killed when it has confirmed the retry, and before it acknowledges
    shop.repair()
    shop.die_after("retry_confirmed")
    retry_all(service)
    shop.wait_for("retry_confirmed shop.pack_late")
    shop.wait_for_death()
    wait_for_status(service, "resolved", failed)
    shop.start(pool)

    # Then Celery runs it once more, as it does without Retrier, and it stays resolved
    shop.wait_for("retry_confirmed shop.pack_late", times=2)
    assert shop.told.count(f"packed {failed} 1") == 2
    wait_for_status(service, "resolved", failed)
    assert len(messages(service)) == 1
