"""PostgreSQL's `uuid` as the text that ids are everywhere else, in either format of the driver."""

from typing import Any

import psycopg
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.pq import Format
from psycopg.types.string import TextLoader

_UUID = psycopg.adapters.types["uuid"].oid


class _IdLoader(Loader):
    """Reads 16 bytes."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        digits = bytes(data).hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class _IdDumper(Dumper):
    """Writes 16 bytes: COPY takes nothing else."""

    format = Format.BINARY
    oid = _UUID

    def dump(self, obj: str) -> bytes:
        return bytes.fromhex(obj.replace("-", ""))


def read_ids_as_text(connection: psycopg.Connection[Any]) -> None:
    """Have a connection load ids as text, and copy them in from text.

    Its own way would make an object of each, only for us to write it as text again.
    """
    connection.adapters.register_loader("uuid", TextLoader)
    connection.adapters.register_loader("uuid", _IdLoader)
    connection.adapters.register_dumper(None, _IdDumper)
