"""What the dialect of Celery reads of a task that the broker dead-lettered."""

import pytest

from retrier.domain.dialects import recognise, strips
from retrier.domain.dialects.celery import CeleryDialect
from retrier.domain.dialects.dialect import Unintelligible
from tests.support.dialect_headers import NSB, OURS, death, properties, read

CELERY = CeleryDialect()
TASK: dict[str, object] = {"task": "shop.pack", "id": "b1c2", "retries": 2, "origin": "gen1@box"}


def test_the_task_is_the_type_of_the_message():
    assert read(CELERY, death(), TASK).message_type == "shop.pack"


def test_the_id_of_the_task_is_the_id_of_the_message():
    assert CELERY.message_id(properties(death(), TASK, message_id="other")) == "b1c2"


def test_where_it_died_is_what_the_broker_says():
    details = read(CELERY, death(), TASK)

    assert (details.queue, details.destination) == ("orders", "orders")
    assert details.failure_reason == "rejected"


@pytest.mark.parametrize(("retries", "runs"), [(0, 1), (2, 3), ("4", 5)])
def test_it_has_run_once_and_once_for_each_retry_of_its_own(retries, runs):
    assert read(CELERY, death(), TASK | {"retries": retries}).attempts_reported == runs


@pytest.mark.parametrize("retries", [None, -1, True, "x", [2], {"a": 1}, 2**40])
def test_a_count_of_retries_that_is_none_leaves_that_of_the_broker(retries):
    assert read(CELERY, death(), TASK | {"retries": retries}).attempts_reported == 3


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        (death() | TASK, "celery"),
        (death() | OURS | TASK, "retrier"),
        (death() | NSB | TASK, "nservicebus"),
        (death() | {"task": "shop.pack"}, "rabbitmq"),
        (death() | {"id": "b1c2"}, "rabbitmq"),
        (death() | TASK | {"task": ""}, "rabbitmq"),
        (death() | TASK | {"task": 5}, "rabbitmq"),
        (death() | TASK | {"id": ["b1c2"]}, "rabbitmq"),
    ],
    ids=["a task", "told by us", "NServiceBus", "no id", "no task", "empty", "a number", "a list"],
)
def test_it_is_recognised_by_death_task_and_id(headers, name):
    dialect = recognise(properties(headers))

    assert dialect is not None
    assert dialect.name == name


def test_a_task_that_nobody_dead_lettered_is_in_no_dialect():
    assert recognise(properties(TASK)) is None


def test_a_death_without_a_queue_is_not_understood():
    assert isinstance(CELERY.read(properties({"x-death": []}, TASK)), Unintelligible)


def test_a_retry_keeps_what_celery_needs():
    assert not any(strips("celery", name) for name in TASK)
