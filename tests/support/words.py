"""Reads the words of what is stored, as the job of the service does."""

from retrier.store.engine.database import Database
from retrier.store.words import fill_words, look_at_numbers
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec

CODEC = AmqpPropertyCodec()
BODY_BYTES = 16 * 1024


def fill(db: Database) -> int:
    """Read all words that are to be read; return of how many messages."""
    last = look_at_numbers(db).last
    read = 0
    while (chunk := fill_words(db, last, CODEC, BODY_BYTES)) is not None:
        read += chunk
    return read
