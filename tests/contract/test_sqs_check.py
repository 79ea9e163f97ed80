"""What `retrier check` says of SQS."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from retrier.app.check import CheckResult, check_broker
from retrier.settings import load_settings
from tests.support.sqs_front import Fault, Front, opened_front
from tests.support.sqs_server import URL, SqsServer
from tests.support.sqs_shop import SqsShop, opened_sqs_shop

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
    def ask(queue: str = shop.error, endpoint: str = front.server.endpoint) -> list[CheckResult]:
        settings = {
            "instance": shop.name,
            "broker": {
                "url": URL,
                "transport_options": {**front.server.options(wait=20), "endpoint_url": endpoint},
            },
            "ingestion": {"error_queues": [queue]},
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


def test_a_right_that_is_missing_is_named_with_its_queue(
    check: Check, front: Front, shop: SqsShop
) -> None:
    front.fail("DeleteMessage", Fault(code="AccessDeniedException", status=403))

    (wrong,) = [each for each in check() if not each.ok]

    assert "the right sqs:DeleteMessage is missing" in wrong.text
    assert f":{shop.error}" in wrong.text


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
