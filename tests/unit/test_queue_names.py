"""Which names lead to one queue, on each broker."""

import pytest

from retrier.transport.queue_names import OwnQueues, find_alike

SQS = "sqs://key:secret@eu-west-1"
ARN = "arn:aws:sqs:eu-west-1:123456789012:"
OTHERS = "arn:aws:sqs:eu-west-1:210987654321:"
OWN = ("dead", "retrier.staging")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("amqp://127.0.0.1", "retrier.staging"),
        (SQS, "retrier.staging"),
        (SQS, "retrier-staging"),
        (SQS, f"{ARN}retrier-staging"),
        (SQS, f"{ARN}dead"),
        ("redis://127.0.0.1", "dead\x06\x163"),
        ("redis://127.0.0.1", "retrier.staging\x06\x169"),
        ("pgmq://127.0.0.1/shop", "retrier_staging"),
        ("pgmq://127.0.0.1/shop", "Dead"),
    ],
)
def test_a_queue_of_ours_is_known_by_its_other_names(url: str, name: str) -> None:
    assert name in OwnQueues(OWN, find_alike(url, {}))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("amqp://127.0.0.1", "retrier-staging"),
        ("embedded:///broker.db", "retrier-staging"),
        (SQS, "Dead"),
        (SQS, "dead.fifo"),
        (SQS, ARN.replace("west", "east") + "dead"),
        ("redis://127.0.0.1", "dead\x06\x164"),
        ("redis://127.0.0.1", "dead:3"),
        ("redis://127.0.0.1", "retrier-staging"),
        ("filesystem://", "shop.dead"),
        ("pgmq://127.0.0.1/shop", "orders"),
    ],
)
def test_another_queue_is_not_taken_for_one_of_ours(url: str, name: str) -> None:
    assert name not in OwnQueues(OWN, find_alike(url, {}))


def test_accounts_are_compared_where_both_are_known() -> None:
    alike = find_alike(SQS, {})

    assert f"{OTHERS}dead" in OwnQueues(["dead"], alike)
    assert f"{OTHERS}dead" not in OwnQueues([f"{ARN}dead"], alike)


def test_lists_of_priority_are_named_as_the_options_say() -> None:
    own = OwnQueues(OWN, find_alike("redis://127.0.0.1", {"sep": ":", "priority_steps": [0, 7]}))

    assert "dead:7" in own
    assert "dead:3" not in own
