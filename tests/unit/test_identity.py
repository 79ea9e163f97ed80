"""Unique message ids, body hashes and fingerprints."""

import pytest

from retrier.domain.dialects.nservicebus import NServiceBusDialect
from retrier.domain.identity import (
    body_hash,
    canonical,
    computed_id,
    fingerprint,
    is_guid,
    md5_guid,
    with_body,
)


def test_a_guid_has_the_byte_order_of_dotnet():
    # MD5("") is d41d8cd98f00b204e9800998ecf8427e; .NET reads its first three parts little-endian.
    assert md5_guid("") == "d98c1dd4-008f-04b2-e980-0998ecf8427e"


def test_nservicebus_ids_are_servicecontrols():
    assert NServiceBusDialect().computed_id("id", "Sales") == md5_guid("idSales")


def test_elsewhere_id_and_endpoint_cannot_run_into_each_other():
    assert computed_id("1", "1shop") != computed_id("11", "shop")


def test_the_same_id_at_two_endpoints_is_two_messages():
    assert computed_id("1", "shop") != computed_id("1", "mail")


def test_a_body_makes_another_message_of_a_reused_id():
    one = computed_id("1", "shop")

    assert len({one, with_body(one, body_hash(b"a")), with_body(one, body_hash(b"b"))}) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d98c1dd4-008f-04b2-e980-0998ecf8427e", True),
        ("D98C1DD4-008F-04B2-E980-0998ECF8427E", True),
        ("{d98c1dd4-008f-04b2-e980-0998ecf8427e}", False),
        ("d98c1dd4008f04b2e9800998ecf8427e", False),
        ("d98c1dd4-008f-04b2-e980-0998ecf8427e\n", False),
        ("\u066198c1dd4-008f-04b2-e980-0998ecf8427e", False),
        ("order-7", False),
        ("", False),
        ("x" * 1_000_000, False),
    ],
)
def test_only_hyphenated_guids_are_unique_message_ids(text, expected):
    assert is_guid(text) is expected


def test_ids_are_compared_in_lower_case():
    assert canonical("D98C1DD4-008F-04B2-E980-0998ECF8427E") == (
        "d98c1dd4-008f-04b2-e980-0998ecf8427e"
    )


def test_bodies_are_known_by_their_sha256():
    assert body_hash(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_fingerprint_keeps_properties_and_body_apart():
    assert fingerprint(b"ab", b"c") != fingerprint(b"a", b"bc")


def test_a_fingerprint_has_sixteen_bytes():
    assert len(bytes.fromhex(fingerprint(b"ab", b"c"))) == 16


def test_a_message_id_that_is_no_text_in_utf8_still_gives_an_id():
    assert is_guid(computed_id("\ud800", "shop"))
