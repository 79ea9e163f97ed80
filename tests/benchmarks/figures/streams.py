"""Figure n: how fast strict streams move when a consumer confirms each of their messages at once."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from tests.benchmarks.confirming import Confirming, Handled
from tests.benchmarks.filling import Filling, fill
from tests.benchmarks.options import BODIES, Options
from tests.benchmarks.place import Place
from tests.benchmarks.results import Row
from tests.benchmarks.site import opened_site, patience, retry
from tests.benchmarks.targets import STREAM_RATE, TARGET_BODY

LENGTH = 10
STREAMS = (1, 10, 100, 1000)
INTO_STREAMS = """
UPDATE failed_messages SET stream_queue = %s, stream_rule = 'strict',
       stream_id = 'order ' || (placed.place %% %s)
FROM (SELECT number, row_number() OVER (ORDER BY number) AS place FROM failed_messages) AS placed
WHERE failed_messages.number = placed.number
"""
ORDER = "SELECT unique_message_id::text, stream_id FROM failed_messages ORDER BY number"


def measure_streams(options: Options, place: Place) -> Iterator[Row]:
    """Measure more and more streams of 10 messages, with the first kind of queues."""
    for streams in STREAMS:
        if streams * LENGTH > options.messages:
            return
        seconds = _handle(place, options.queues[0], streams)
        yield Row(
            figure="n",
            what=f"{streams:,} strict streams of {LENGTH}, each message confirmed: a stream",
            queues=options.queues[0],
            body=TARGET_BODY,
            value=(LENGTH - 1) / seconds,
            unit="/s",
            target=STREAM_RATE,
        )


def _handle(place: Place, kind: str, streams: int) -> float:
    """Return the seconds from the first message to the last; fail if an order is not kept.

    So the first ones cost nothing: a stream of 10 moves on 9 times in these seconds.
    """
    count = streams * LENGTH
    with opened_site(place, kind) as site:
        size = BODIES[TARGET_BODY]
        filling = Filling(count=count, queue=site.orders, error_queue=site.error, body_size=size)
        fill(site.database_url, site.conn, filling)
        site.conn.execute(INTO_STREAMS, (site.orders, streams))
        site.conn.execute("VACUUM ANALYZE")
        service = site.start()
        service.wait_ready()
        consumer = Confirming(place.amqp_url, site.orders, count)
        try:
            with service.http as http:
                operation = retry(http, "/api/errors/retry/all")
                handled = consumer.collect(patience(count))
                site.wait_completed(http, operation, count)
        finally:
            consumer.end()
        check_order(dict(site.conn.execute(ORDER).fetchall()), handled)
        site.verify()
    return handled[-1].after


def check_order(streams: Mapping[str, str], handled: Sequence[Handled]) -> None:
    """Fail unless each message was handled once, and each stream in its order.

    `streams` names the stream of each message, in the order in which they failed.
    """
    came = [(each.unique_id, streams[each.unique_id]) for each in handled]
    # Sorting is stable: within a stream the order stays.
    if sorted(came, key=itemgetter(1)) != sorted(streams.items(), key=itemgetter(1)):
        raise RuntimeError("a stream was not handled in its order, or not once")
