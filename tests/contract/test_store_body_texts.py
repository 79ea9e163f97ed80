"""Texts that only the body has are stored; the body is not read a second time."""

from retrier.store.engine.database import Database
from retrier.store.message_details import find_message
from retrier.transport.rabbitmq.properties.codec import AmqpPropertyCodec
from tests.support.bench import Bench
from tests.support.factories import failure, unique_id

CODEC = AmqpPropertyCodec()


def test_a_trace_that_the_body_has_is_shown_beside_one_that_headers_have(
    database: Database,
) -> None:
    bench = Bench(database)
    told = {"raw": b"\0\0", "exception_message": "order 7", "stack_trace": "line 1 of a body"}
    in_body = failure(keeps_texts=True, **told)
    in_headers = failure(stack_trace="line 1 of a header")

    bench.receive(in_body, in_headers)

    shown = [find_message(database, unique_id(each), CODEC) for each in (in_body, in_headers)]
    assert all(each is not None for each in shown)
    assert ["line 1 of a body" in str(each) for each in shown] == [True, False]
    assert ["line 1 of a header" in str(each) for each in shown] == [False, True]
