"""Groups, chords and callbacks of Celery whose members fail and are retried: docs/celery.md."""

from collections.abc import Callable
from pathlib import Path

import pytest
from celery import chord, group
from celery.result import AsyncResult

from tests.support.celery_site import retry_all, wait_for_status
from tests.support.celery_workers import DEADLINE, CeleryShop
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.rabbitmq, pytest.mark.journey]


@pytest.fixture
def shop(open_shop: Callable[..., CeleryShop], tmp_path: Path) -> CeleryShop:
    """Give a broken shop that keeps results; its worker runs."""
    shop = open_shop(BACKEND=f"db+sqlite:///{tmp_path}/results.db")
    shop.break_down()
    shop.start("threads")
    return shop


def state_of(shop: CeleryShop, task: AsyncResult) -> str:
    """Return the state that is stored now: a result that was read once remembers it."""
    return str(shop.client.AsyncResult(task.id).state)


def wait_for_states(shop: CeleryShop, states: list[str], *tasks: AsyncResult) -> None:
    def reached() -> bool:
        return [state_of(shop, task) for task in tasks] == states

    wait_until(reached, DEADLINE, f"the results are not {states}")


def test_the_callbacks_of_a_task_are_called_when_its_retry_succeeds(
    shop: CeleryShop, service: Service
) -> None:
    # Given a task with callbacks for both ends, that failed
    task = shop.client.signature("shop.pack", (1,))
    task.link(shop.client.signature("shop.send"))
    task.link_error(shop.client.signature("shop.tell_of"))
    failed = task.apply_async()
    wait_for_status(service, "unresolved", failed.id)
    shop.wait_for("told of a failure")
    assert "sent 'packed'" not in shop.told

    # When its retry succeeds
    shop.repair()
    retry_all(service)

    # Then the callback for that is called
    shop.wait_for("sent 'packed'")
    wait_for_status(service, "resolved", failed.id)


def test_a_member_of_a_group_has_its_result_when_its_retry_succeeds(
    shop: CeleryShop, service: Service
) -> None:
    # Given a group of which a member failed
    sent = shop.client.signature("shop.send", (0,))
    pack = shop.client.signature("shop.pack", (1,))
    packed, sent = group(pack, sent, app=shop.client).apply_async().results
    wait_for_states(shop, ["FAILURE", "SUCCESS"], packed, sent)
    wait_for_status(service, "unresolved", packed.id)

    # When it is retried
    shop.repair()
    retry_all(service)

    # Then all of the group has succeeded
    wait_for_states(shop, ["SUCCESS", "SUCCESS"], packed, sent)
    wait_for_status(service, "resolved", packed.id)


def test_a_chord_that_was_given_up_is_not_continued(shop: CeleryShop, service: Service) -> None:
    # Given a chord of which a member failed, so that Celery gave it up
    header = [shop.client.signature("shop.pack", (1,)), shop.client.signature("shop.send", (0,))]
    body = chord(header, app=shop.client)(shop.client.signature("shop.sum_up"))
    packed, _ = body.parent.results
    wait_for_states(shop, ["FAILURE", "FAILURE"], packed, body)
    wait_for_status(service, "unresolved", packed.id)

    # When the member is retried, and succeeds
    shop.repair()
    retry_all(service)
    wait_for_status(service, "resolved", packed.id)

    # Then its result is there, and the body was given up for good
    wait_for_states(shop, ["SUCCESS", "FAILURE"], packed, body)
    assert not [line for line in shop.told if line.startswith("summed up")]
