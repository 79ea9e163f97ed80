"""Notices: a message to operators' own programs, for each message that becomes dead."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from retrier.domain import headers
from retrier.domain.wire import Edit, PropertyCodec

NOTICE_ID = "notice_id"
"""The member of a notice that names it: the same each time the notice is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadMessage:
    """A message that has become dead in this transaction, and the failure that it shows."""

    number: int
    attempt_id: int


def make_notice_properties(codec: PropertyCodec, notice: Mapping[str, object]) -> bytes:
    """Return the properties of a notice: persistent, JSON, with its id as a header."""
    stamped = {headers.NOTICE_ID: str(notice[NOTICE_ID])}
    fields: dict[str, int | str] = {"delivery_mode": 2, "content_type": "application/json"}
    edit = Edit(set_headers=stamped, set_fields=fields)
    return codec.edit(codec.empty, edit)


def make_notice_body(notice: Mapping[str, object], exception_message: str | None) -> bytes:
    """Return the body: what was written down, with the message of the exception.

    That one is read from the stored failure, which never changes: the body is the same each time.
    """
    exception = {"exception_type": notice.get("exception_type"), "message": exception_message}
    told = {name: value for name, value in notice.items() if name != "exception_type"}
    whole = {**told, "exception": {name: value for name, value in exception.items() if value}}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
