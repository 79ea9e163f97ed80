"""Values of declared fields in failures, as they come off an error queue."""

import json

from retrier.app.parts import make_mapping
from retrier.ingestion.parsing import QueueMapping
from retrier.settings import load_settings
from tests.support.library_samples import easynetq
from tests.support.raw_messages import delivery, retrier_headers
from tests.support.understood import failure

FIELDS = json.dumps(
    [
        {"name": "order", "from": "body:/order/id"},
        {"name": "tenant", "from": "header:Shop.Tenant", "queues": ["orders*"]},
    ]
)


def declared() -> QueueMapping:
    settings = load_settings(None, {"RETRIER_SEARCH__FIELDS": FIELDS})
    return make_mapping(settings, settings.ingestion.error_queues[0])


def test_a_failure_has_no_values_where_no_field_is_declared():
    assert failure(delivery(retrier_headers())).fields is None


def test_a_failure_has_the_values_of_its_headers_and_its_body():
    arrived = delivery({**retrier_headers(), "Shop.Tenant": "north"}, body=b'{"order": {"id": 7}}')

    assert failure(arrived, declared()).fields == {"order": "7", "tenant": "north"}


def test_a_failure_of_another_queue_has_those_of_its_queue_only():
    headers = {**retrier_headers(), "Shop.Tenant": "north", "Retrier.FailedQueue": "billing"}

    assert failure(delivery(headers, body=b"{}"), declared()).fields == {}


def test_a_failure_with_a_body_that_cannot_be_read_is_a_failure():
    arrived = delivery({**retrier_headers(), "Shop.Tenant": "north"}, body=b"\xff" + b"[" * 60_000)

    assert failure(arrived, declared()).fields == {"tenant": "north"}


def test_a_message_in_an_error_envelope_is_read_and_not_the_envelope():
    fields = (
        '[{"name": "order", "from": "body:/order"}, {"name": "tenant", "from": "header:tenant"}]'
    )
    settings = load_settings(None, {"RETRIER_SEARCH__FIELDS": fields})
    mapping = make_mapping(settings, settings.ingestion.error_queues[0])

    arrived = delivery(body=easynetq(), type="EasyNetQ.SystemMessages.Error, EasyNetQ")

    assert failure(arrived, mapping).fields == {"order": "7", "tenant": "north"}
