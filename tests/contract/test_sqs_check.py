"""What `retrier check` says of SQS."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
import yaml

from retrier.app.check import CheckResult, check_broker
from retrier.settings import load_settings
from retrier.transport.sqs.address import parse_address
from retrier.transport.sqs.line import Line, Requests, Throttled
from tests.support.sqs_front import Fault, Front, opened_front
from tests.support.sqs_server import URL, SqsServer, arn
from tests.support.sqs_shop import SqsShop, make_order, opened_sqs_shop

Check = Callable[..., list[CheckResult]]


@pytest.fixture
def front(sqs_server: SqsServer) -> Iterator[Front]:
    with opened_front(sqs_server) as front:
        yield front


@pytest.fixture
def shop(sqs_server: SqsServer) -> Iterator[SqsShop]:
    with opened_sqs_shop(sqs_server, f"test-{uuid4().hex[:12]}") as shop:
        yield shop


@pytest.fixture
def check(front: Front, shop: SqsShop, tmp_path: Path) -> Check:
    def ask(
        queue: str = shop.error,
        endpoint: str = front.server.endpoint,
        destination: str = shop.orders,
        log_queue: str | None = None,
    ) -> list[CheckResult]:
        settings = {
            "instance": shop.name,
            "broker": {
                "url": URL,
                "transport_options": {**front.server.options(wait=20), "endpoint_url": endpoint},
            },
            "ingestion": {
                "error_queues": [{"queue": queue, "destination": destination}],
                **({} if log_queue is None else {"forward_to": log_queue}),
            },
        }
        file = tmp_path / "retrier.yaml"
        file.write_text(yaml.safe_dump(settings))
        return check_broker(load_settings(file, {}))

    return ask


def test_all_is_well_and_says_what_it_costs(check: Check) -> None:
    found = check()

    assert all(each.ok for each in found)
    assert "some 216,000 requests a month, about 0.09 USD" in found[0].text


def test_an_error_queue_that_is_missing_is_named(check: Check) -> None:
    (wrong,) = [each for each in check("nowhere-dead") if not each.ok]

    assert "nowhere-dead" in wrong.name
    assert "does not exist" in wrong.text


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ("arn:aws:sqs:us-east-1:123456789012:dead", "is in the region us-east-1, and broker.url"),
        ("arn:aws:sqs:eu-west-1:999999999999:dead", "the account 999999999999 has no queue dead"),
        ("arn:aws:sns:eu-west-1:123456789012:dead", "is no ARN of a queue"),
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/dead", "is a URL: name the queue by"),
        ("orders.dead", "SQS takes no queue that is called 'orders.dead'"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(check: Check, queue: str, why: str) -> None:
    (wrong,) = [each for each in check(queue) if not each.ok]

    assert why in wrong.text
    assert "declare_missing" not in wrong.text


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ("arn:aws:sqs:us-east-1:123456789012:orders", "is in the region us-east-1"),
        ("orders.dead", "SQS takes no queue that is called 'orders.dead'"),
        ("orders-of-nobody", "it does not exist, and retries to it fail"),
    ],
)
def test_a_destination_that_is_missing_is_named_with_what_is_wrong(
    check: Check, queue: str, why: str
) -> None:
    (told,) = [each for each in check(destination=queue) if queue in each.name]

    assert told.text.startswith("warning")
    assert why in told.text


def test_a_log_queue_that_is_misnamed_is_named_with_what_is_wrong(check: Check) -> None:
    (wrong,) = [each for each in check(log_queue="orders.log") if not each.ok]

    assert wrong.name == "log queue orders.log"
    assert "does not exist: SQS takes no queue that is called 'orders.log'" in wrong.text


def test_a_right_that_is_missing_is_named_with_its_queue(
    check: Check, front: Front, shop: SqsShop
) -> None:
    front.fail("DeleteMessage", Fault(code="AccessDeniedException", status=403))

    (wrong,) = [each for each in check() if not each.ok]

    assert "the right sqs:DeleteMessage is missing" in wrong.text
    assert f":{shop.error}" in wrong.text


class TestAnErrorQueue:
    """What SQS does to the messages of an error queue by itself."""

    @pytest.fixture
    def make(self, shop: SqsShop) -> Callable[..., str]:
        def make_one(name: str = "dead", **attributes: str) -> str:
            shop.client.create_queue(QueueName=f"{shop.name}-{name}", Attributes=attributes)
            return f"{shop.name}-{name}"

        return make_one

    def test_that_forgets_early_says_after_how_long(
        self, check: Check, make: Callable[..., str]
    ) -> None:
        found = check(make(MessageRetentionPeriod="345600"))

        (told,) = [each for each in found if "warning" in each.text and "error" in each.name]
        assert told.ok
        assert "it keeps messages for 4 days from when they were first sent" in told.text
        assert "Set its MessageRetentionPeriod to 14 days" in told.text

    def test_of_first_in_first_out_counts_from_when_a_message_was_moved(
        self, check: Check, make: Callable[..., str]
    ) -> None:
        queue = make("dead.fifo", FifoQueue="true", MessageRetentionPeriod="3600")

        assert any("for 1 h from when they were moved" in each.text for each in check(queue))

    def test_that_keeps_what_it_can_is_not_warned_of(
        self, check: Check, make: Callable[..., str]
    ) -> None:
        found = check(make(MessageRetentionPeriod="1209600"))

        assert not any("MessageRetentionPeriod" in each.text for each in found)

    def test_with_a_redrive_policy_is_explained_in_the_words_of_sqs(
        self, check: Check, make: Callable[..., str], shop: SqsShop
    ) -> None:
        policy = {"deadLetterTargetArn": arn(shop.error), "maxReceiveCount": "3"}
        queue = make(RedrivePolicy=json.dumps(policy))

        (told,) = [each.text for each in check(queue) if each.name == f"error queue {queue}"]

        assert f"moves what was received more than 3 times to {arn(shop.error)}" in told
        assert "has a redrive policy of its own, as work queues have" in told
        assert "exchange" not in told
        assert "delivery limit" not in told


class TestAQueueWithAKeyOfItsOwn:
    """What SQS encrypts with a key of KMS, which has rights of its own."""

    @pytest.fixture
    def dead(self, shop: SqsShop) -> str:
        name = f"{shop.name}-secret"
        attributes = {"KmsMasterKeyId": "alias/shop"}
        shop.client.create_queue(QueueName=name, Attributes=attributes)
        return name

    def test_is_tried_with_the_first_message(
        self, check: Check, shop: SqsShop, front: Front, dead: str
    ) -> None:
        shop.send([make_order(1)], queue=dead)
        denied = Fault(code="KMS.AccessDeniedException", only_for='"MaxNumberOfMessages": 1,')
        front.fail("ReceiveMessage", denied)

        (wrong,) = [each for each in check(dead) if not each.ok]

        assert wrong.name == f"error queue {dead}"
        assert "its key in KMS cannot be used" in wrong.text
        assert shop.depth(dead) == 1

    def test_gives_the_message_back_at_once(self, check: Check, shop: SqsShop, dead: str) -> None:
        shop.send([make_order(1)], queue=dead)

        found = check(dead)

        assert all(each.ok and "KMS" not in each.text for each in found)
        assert shop.depth(dead) == 1

    def test_says_that_nothing_is_known_while_it_is_empty(self, check: Check, dead: str) -> None:
        (told,) = [each for each in check(dead) if "KMS" in each.text]

        assert told.ok
        assert told.text.endswith("was not tried: only a message that is received shows it")

    def test_says_of_a_destination_that_only_a_send_shows_it(self, check: Check, dead: str) -> None:
        (told,) = [each for each in check(destination=dead) if "KMS" in each.text]

        assert told.name == f"destination {dead}"
        assert "kms:GenerateDataKey" in told.text


@pytest.mark.parametrize(
    ("code", "words"),
    [("OverLimit", "has too much in hand"), ("ServiceUnavailable", "is not available")],
)
def test_what_is_not_throttled_is_not_called_so(front: Front, code: str, words: str) -> None:
    options = {**front.server.options(wait=20), "endpoint_url": front.server.endpoint}
    dice = Random(1)  # noqa: S311 - no secret
    line = Line(parse_address(URL, options), Requests(), {}, dice)
    front.fail("GetQueueUrl", Fault(code=code, message="120,000 are in flight"))

    with pytest.raises(Throttled, match=rf"{words} \({code}\): 120,000 are in flight"):
        line.call_once("ReceiveMessage", "orders")
    line.close()


@pytest.mark.parametrize(
    ("region", "arn"),
    [
        ("eu-west-1", "arn:aws:sqs:eu-west-1:*:orders"),
        ("cn-north-1", "arn:aws-cn:sqs:cn-north-1:*:orders"),
        ("us-gov-west-1", "arn:aws-us-gov:sqs:us-gov-west-1:*:orders"),
    ],
)
def test_a_queue_is_named_in_its_part_of_aws(front: Front, region: str, arn: str) -> None:
    options = {**front.server.options(wait=20), "endpoint_url": front.server.endpoint}
    dice = Random(1)  # noqa: S311 - no secret
    line = Line(parse_address(f"sqs://a:b@{region}", options), Requests(), {}, dice)

    assert line.arn_of("orders") == arn
    line.close()


def test_a_clock_that_is_wrong_is_said(check: Check, front: Front) -> None:
    words = "Signature not yet current: 20260504T120000Z is still later than ..."
    fault = Fault(code="InvalidSignatureException", status=403, message=words)
    front.fail("GetQueueUrl", fault)

    (wrong,) = check()

    assert "our clock is" in wrong.text


def test_a_place_that_is_not_reached_asks_for_the_region(check: Check) -> None:
    (wrong,) = check(endpoint="http://127.0.0.1:1")

    assert wrong.out_of_reach
    assert "is the region right?" in wrong.text
