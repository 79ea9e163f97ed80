"""Every delivery of one message has the same canonical properties, whatever the broker adds."""

from retrier.domain.wire import Edit
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec

codec = AmqpPropertyCodec()
SENT = codec.edit(codec.empty, Edit(set_headers={"b": "2", "a": "1"}))


def test_a_table_that_was_sorted_is_the_same() -> None:
    redelivered = codec.edit(codec.empty, Edit(set_headers={"a": "1", "b": "2"}))

    assert codec.canonical(redelivered) == codec.canonical(SENT)


def test_a_delivery_count_makes_no_difference() -> None:
    redelivered = codec.edit(SENT, Edit(set_headers={"x-delivery-count": "1"}))

    assert codec.canonical(redelivered) == codec.canonical(SENT)


def test_a_table_with_nothing_but_a_delivery_count_is_no_table() -> None:
    redelivered = codec.edit(codec.empty, Edit(set_headers={"x-delivery-count": "1"}))

    assert codec.canonical(redelivered) == codec.canonical(codec.empty)


def test_another_value_is_another_message() -> None:
    other = codec.edit(codec.empty, Edit(set_headers={"b": "2", "a": "3"}))

    assert codec.canonical(other) != codec.canonical(SENT)


def test_another_field_is_another_message() -> None:
    other = codec.edit(SENT, Edit(set_fields={"priority": 1}))

    assert codec.canonical(other) != codec.canonical(SENT)
