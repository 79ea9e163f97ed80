"""What RabbitMQ does of itself to a message, by version: seen on 3.10.8 and on 4.0.5."""

from dataclasses import dataclass

from retrier.transport.rabbitmq.properties import LENGTH, Span, entries, find_fields
from tests.support.amqp_bytes import with_length

FOUR = (4, 0)


def table_of(raw: bytes) -> Span:
    """Return where the entries of the header table lie."""
    start, end = find_fields(raw, frozenset({"headers"})).get("headers", (0, 0))
    return start + LENGTH, end


@dataclass(frozen=True, slots=True)
class RabbitMQHabits:
    """The habits of a broker of this version."""

    version: tuple[int, ...]

    @property
    def keeps_header_order(self) -> bool:
        """Whether a queue hands a header table out as it was written.

        From 4.0 on it is sorted by name, from the first delivery on, and of names that occur
        twice the first is kept.
        """
        return self.version < FOUR

    @property
    def limits_deliveries_unasked(self) -> bool:
        """Whether a quorum queue without a delivery limit of its own has one (20)."""
        return self.version >= FOUR

    @property
    def orders_quorum_queues_by_priority(self) -> bool:
        """Whether a quorum queue hands messages of a high priority out first."""
        return self.version >= FOUR

    @property
    def largest_body(self) -> int:
        """How many bytes a body may have where nothing is configured."""
        return (16 if self.version >= FOUR else 128) << 20

    def hands_out(self, raw: bytes) -> bytes:
        """Return the properties that the first delivery of a message has."""
        start, end = table_of(raw)
        if self.keeps_header_order or end <= start:
            return raw
        table = raw[start:end]
        found: dict[bytes, bytes] = {}
        for entry in entries(table):
            found.setdefault(entry[1 : entry[0] + 1], entry)
        ordered = with_length(b"".join(found[name] for name in sorted(found)))
        return raw[: start - 4] + ordered + raw[end:]
