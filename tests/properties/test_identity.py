"""Unique message ids, whatever ids and endpoints look like."""

from hypothesis import assume, given
from hypothesis import strategies as st

from retrier.domain.dialects import DIALECTS
from retrier.domain.dialects.nservicebus import NServiceBusDialect
from retrier.domain.identity import (
    body_hash,
    canonical,
    computed_id,
    fingerprint,
    is_guid,
    with_body,
)

names = st.text(st.characters(exclude_categories=[], exclude_characters="\0"))
dialects = st.sampled_from(DIALECTS)


@given(names, names, dialects)
def test_every_computed_id_is_a_canonical_guid(message_id, endpoint, dialect):
    unique_id = dialect.computed_id(message_id, endpoint)

    assert is_guid(unique_id)
    assert canonical(unique_id) == unique_id


@given(names, names, names, names)
def test_different_messages_have_different_ids_outside_nservicebus(id1, endpoint1, id2, endpoint2):
    assume((id1, endpoint1) != (id2, endpoint2))

    assert computed_id(id1, endpoint1) != computed_id(id2, endpoint2)


@given(names, names)
def test_nservicebus_ids_depend_on_the_joined_text_alone(message_id, endpoint):
    joined = NServiceBusDialect().computed_id(message_id + endpoint, "")

    assert NServiceBusDialect().computed_id(message_id, endpoint) == joined


@given(names, st.binary(), st.binary())
def test_an_id_with_a_body_depends_on_the_body(message_id, body, other):
    assume(body != other)
    unique_id = computed_id(message_id, "shop")

    assert with_body(unique_id, body_hash(body)) != with_body(unique_id, body_hash(other))


@given(st.binary(), st.binary(), st.integers(min_value=0, max_value=50))
def test_bytes_moved_between_properties_and_body_change_the_fingerprint(raw, body, cut):
    joined = raw + body
    assume(cut != len(raw) and cut <= len(joined))

    assert fingerprint(joined[:cut], joined[cut:]) != fingerprint(raw, body)


@given(st.text())
def test_only_text_of_the_right_form_is_a_guid(text):
    parts = [len(part) for part in text.split("-")]
    hexadecimal = set(text) <= set("0123456789abcdefABCDEF-")

    assert is_guid(text) == (hexadecimal and parts == [8, 4, 4, 4, 12])
