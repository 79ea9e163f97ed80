"""What a message turns out to be that carries stamps which only copies have."""

from typing import Any

import pytest

from retrier.domain.failed_message import Confirmation, FailedImport, Failure, OwnCopy, Stamped
from retrier.domain.headers import (
    INSTALLATION_ID,
    RETRY_SUCCESSFUL,
    STAGING_ID,
    UNIQUE_MESSAGE_ID,
)
from retrier.domain.wire import Delivery
from retrier.ingestion.parsing import UNKNOWN_COPY
from tests.support.raw_messages import delivery, nservicebus_headers, rabbitmq_headers
from tests.support.understood import GUID, parsed

INSTALLATION, STAGING = (
    "6bd8f7b4-0000-4000-8000-000000000001",
    "6bd8f7b4-0000-4000-8000-000000000002",
)
STAMPS = {INSTALLATION_ID: INSTALLATION, STAGING_ID: STAGING}
CONFIRMING = {RETRY_SUCCESSFUL: "2024-05-01 11:59:00:000000 Z", UNIQUE_MESSAGE_ID: GUID}
OTHERS = [
    (nservicebus_headers(), Failure),
    (rabbitmq_headers(), Failure),
    (CONFIRMING, Confirmation),
    ({}, FailedImport),
]


def stamped(arrived: Delivery) -> Stamped:
    found = parsed(arrived)
    assert isinstance(found, Stamped), found
    return found


@pytest.mark.parametrize(("others", "kind"), OTHERS)
def test_with_a_body_it_is_what_it_is_without_the_stamps(others, kind):
    found: Any = parsed(delivery(others | STAMPS, body=b"an order"))

    assert isinstance(found, kind)
    assert getattr(found, "body", b"an order") == b"an order"


@pytest.mark.parametrize(("others", "kind"), OTHERS)
@pytest.mark.parametrize("installation", [None, "", "somebody", 7])
def test_of_no_installation_it_is_what_it_is_without_the_stamps(others, kind, installation):
    stamps = {STAGING_ID: STAGING} | ({INSTALLATION_ID: installation} if installation else {})

    assert isinstance(parsed(delivery(others | stamps, body=b"")), kind)


@pytest.mark.parametrize(("others", "_kind"), OTHERS)
def test_without_a_body_it_is_our_copy_where_its_staging_id_is_known(others, _kind):
    found = stamped(delivery(others | STAMPS | {UNIQUE_MESSAGE_ID: GUID}, body=b""))

    assert (found.installation_id, found.staging_id) == (INSTALLATION, STAGING)
    assert found.if_ours == OwnCopy(staging_id=STAGING, unique_message_id=GUID, error_queue="error")


@pytest.mark.parametrize(("others", "_kind"), OTHERS)
def test_without_a_body_it_is_never_a_failure_of_ours(others, _kind):
    found: Any = stamped(delivery(others | STAMPS, body=b"")).if_unknown

    assert isinstance(found, FailedImport)
    assert found.reason == UNKNOWN_COPY


def test_without_a_staging_id_it_is_never_a_failure_of_ours_either():
    arrived = delivery({INSTALLATION_ID: INSTALLATION} | rabbitmq_headers(), body=b"")

    assert isinstance(stamped(arrived).if_unknown, FailedImport)


@pytest.mark.parametrize(("others", "_kind"), OTHERS)
def test_of_another_installation_it_names_it(others, _kind):
    found: Any = stamped(delivery(others | STAMPS, body=b"")).if_anothers

    assert isinstance(found, OwnCopy)
    assert found.of_another == INSTALLATION


@pytest.mark.parametrize("staging_id", [None, "", "somebody's"])
def test_of_another_installation_it_needs_a_staging_id(staging_id):
    stamps = {INSTALLATION_ID: INSTALLATION} | ({STAGING_ID: staging_id} if staging_id else {})

    found = stamped(delivery(stamps | rabbitmq_headers(), body=b""))

    assert isinstance(found.if_anothers, Failure)


class TestAProbe:
    """The one copy of ours that has a body."""

    def test_is_a_copy_where_its_staging_id_is_known(self):
        found = stamped(delivery(STAMPS | rabbitmq_headers(), body=b"probe"))

        assert isinstance(found.if_ours, OwnCopy)

    def test_is_otherwise_a_message_like_any_other(self):
        found = stamped(delivery(STAMPS | rabbitmq_headers(), body=b"probe"))

        assert isinstance(found.if_unknown, Failure)
        assert isinstance(found.if_anothers, Failure)

    @pytest.mark.parametrize("body", [b"Probe", b"probe ", b"probe\n"])
    def test_has_exactly_this_body(self, body):
        assert isinstance(parsed(delivery(STAMPS | rabbitmq_headers(), body=body)), Failure)
