"""Edits: what a person may change of a failed message before it is sent again, and what comes of it.

An edit is sent under the claim of its message, in its place. It has an id of its own, so that its
failure is another message: the two must never be taken for one.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from xml.parsers import expat

from retrier.domain import headers
from retrier.domain.approval import ApprovalTerms
from retrier.domain.dialects import strips, strips_in_any_case
from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.json_texts import why_no_json
from retrier.domain.retry_batch import StoredOriginal
from retrier.domain.text import jsonable
from retrier.domain.values import dataclass
from retrier.domain.wire import (
    MARK,
    PACKED,
    Edit,
    NotOfItsType,
    Properties,
    PropertyCodec,
    charset_of,
    is_like_ascii,
    packed_as,
    told_charset,
    why_declared_wrongly,
)

LOCKED = (
    "NServiceBus.MessageId",
    "NServiceBus.SagaId",
    "NServiceBus.CorrelationId",
    "NServiceBus.ControlMessage",
    "NServiceBus.OriginatingSagaId",
    "NServiceBus.RelatedTo",
    "NServiceBus.ConversationId",
    "NServiceBus.MessageIntent",
    "NServiceBus.Version",
    "NServiceBus.IsSagaTimeoutMessage",
    "NServiceBus.IsDeferredMessage",
    "NServiceBus.Retries",
    "NServiceBus.Retries.Timestamp",
    "NServiceBus.FLRetries",
    "NServiceBus.ProcessingStarted",
    "NServiceBus.ProcessingEnded",
    "NServiceBus.ExceptionInfo.ExceptionType",
    "NServiceBus.ExceptionInfo.HelpLink",
    "NServiceBus.ExceptionInfo.Message",
    "NServiceBus.ExceptionInfo.Source",
    "NServiceBus.ExceptionInfo.StackTrace",
    "NServiceBus.TimeOfFailure",
    "NServiceBus.FailedQ",
)
"""They say which message it is, how it came here and how it failed."""

SENSITIVE = (
    "NServiceBus.Header.RouteTo",
    "NServiceBus.DestinationSites",
    "NServiceBus.OriginatingSite",
    "NServiceBus.To",
    "NServiceBus.ReplyToAddress",
    "NServiceBus.ReturnMessage.ErrorCode",
    "NServiceBus.SagaType",
    "NServiceBus.OriginatingSagaType",
    "NServiceBus.TimeSent",
)
"""They decide where the message and its answers go."""

MOST_BYTES = 8 * 1024 * 1024
"""Bytes of a body that can be edited as text, and that come out of a packed one, at most."""

LONGEST_NAME = 255
"""Bytes of the name of a header: AMQP's short string."""

_OURS = headers.STAGING_ONLY | {
    headers.UNIQUE_MESSAGE_ID,
    headers.RETRY_ID,
    headers.ACKNOWLEDGEMENT_QUEUE,
    headers.RETRY_SUCCESSFUL,
    headers.EDIT_OF,
}
_LOCKED = frozenset(map(str.casefold, LOCKED))
_STAMPS = frozenset(map(str.casefold, _OURS))
_ID_HEADERS = frozenset({"NServiceBus.MessageId", "rbs2-msg-id", "_watermill_message_uuid"})
"""Headers with the id that a sender gave. Not of tasks: who waits for a result knows the task's id."""

_LARGEST_INT = 2**63


class EditState(StrEnum):
    """What became of an edit.

    WAITING   it has the claim of its message and is not recorded as sent, or waits for approval.
    SENT      the broker has it: its message is resolved.
    RETURNED  it could not be sent: its message is unresolved again.
    DROPPED   it was not sent: its message was archived, resolved or failed again before, or nobody
              approved it.
    IN_DOUBT  it may have been sent, and its message failed again before that was recorded.
    """

    WAITING = "waiting"
    SENT = "sent"
    RETURNED = "returned"
    DROPPED = "dropped"
    IN_DOUBT = "in_doubt"


class EditRefusal(StrEnum):
    """Why a message is not edited."""

    UNKNOWN = "no failed message has this id"
    EDITED = "somebody else was faster: an edit of it is being sent"
    OWN = "that is you, or somebody who is called the same: that edit is on its way, or was sent"
    ASKED = "an edit of it waits for approval already"
    CLAIMED = "a retry has claimed it already"
    ISSUED = "its retry was issued and has neither succeeded nor failed yet"
    ARCHIVED = "it is archived: take it back first"
    RESOLVED = "it is resolved already"
    HELD = "it is held"
    DEAD = "it is dead: say that it is to be sent all the same"
    CHANGED = "it has failed again since you looked at it: look at it once more"
    DELETED = "its body is not in the database any more: somebody has deleted it"
    UNREADABLE = "its stored properties cannot be read"
    NOTHING = "nothing is changed: `retrier retry` sends it as it is"
    LOCKED = "it must not be changed or removed"
    NO_TEXT = "its value is no text: it can stay as it is, or be removed"
    OTHER_TYPE = "it holds a number, or true or false: so must what it is set to"
    NO_NAME = "the name of a header has 1 to 255 bytes"
    WRONG_TEXT = "it holds a character that no message can have"
    NOT_IN_CHARSET = "it cannot be written in the charset of the message"
    BODY_IS_NO_TEXT = "its body is no text: send the whole body as bytes"
    TOO_LARGE = "the body is larger than 8 MiB: send the whole body as bytes"
    DOES_NOT_FIT = "the broker would not take it"
    BROKEN = "the body cannot be read any more: say that it is to be sent all the same"
    EMPTY = "the body is empty"


OF_THE_STATE = frozenset(
    {
        EditRefusal.EDITED,
        EditRefusal.OWN,
        EditRefusal.ASKED,
        EditRefusal.CLAIMED,
        EditRefusal.ISSUED,
        EditRefusal.ARCHIVED,
        EditRefusal.RESOLVED,
        EditRefusal.HELD,
        EditRefusal.DEAD,
        EditRefusal.CHANGED,
    }
)
"""Refusals because of what the message is at the moment, and not because of what is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRefused:
    """Why an edit is not taken; `about` names the header, or says where and what.

    `who` has edited the message before, or asked for that.
    """

    why: EditRefusal
    about: str = ""
    who: str | None = None

    def __str__(self) -> str:
        return f"{self.about}: {self.why}" if self.about else str(self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a person wants to be another: nothing said means as it is.

    `text` is the body as people read it, unpacked; `body` are its bytes, unpacked as well. `broken`:
    send it although it was JSON or XML and is none any more; `dead`: although it is dead.
    """

    set_headers: Mapping[str, str] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()
    text: str | None = None
    body: bytes | None = None
    broken: bool = False
    dead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """An edit as it is asked for; `attempt_id` is the failure that the person has looked at."""

    unique_message_id: str
    changes: Changes
    who: str
    why: str | None = None
    attempt_id: int | None = None
    idempotency_key: str | None = None
    approval: ApprovalTerms | None = None


def hash_edit(request: EditRequest) -> str:
    """Return the hash of everything that was asked for, without who asked and under which key."""
    changes = request.changes
    asked = {
        "id": request.unique_message_id.lower(),
        "set": dict(changes.set_headers),
        "remove": sorted(changes.remove),
        "text": changes.text,
        "body": None if changes.body is None else sha256(changes.body).hexdigest(),
        "words": [changes.broken, changes.dead],
        "why": request.why,
        "attempt": request.attempt_id,
    }
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedMessage:
    """The properties and the body that are sent, and the id that the message has then."""

    raw: bytes
    body: bytes
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedEdit:
    """An edit that has the claim of its message; if it `is_asking`, it waits for approval instead."""

    edit_id: str
    operation_id: str
    is_asking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderChange:
    """A header before and after; None where it is not there."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEdit:
    """An edit for people, with what differs from the failure that was edited.

    `headers` is None if that failure, or its properties, cannot be read any more. If it `is_asking`,
    it waits for approval by a second person.
    """

    edit_id: str
    operation_id: str
    state: EditState
    who: str
    why: str | None
    reason: str | None
    asked_at: datetime
    ended_at: datetime | None
    message_id: str
    body_changed: bool
    body_size: int
    headers: Sequence[HeaderChange] | None
    is_asking: bool = False


def without_values(shown: ShownEdit, instead: str) -> ShownEdit:
    """Return an edit that tells which headers changed, and not their values."""
    if shown.headers is None:
        return shown
    hidden = [
        replace(
            each,
            before=None if each.before is None else instead,
            after=None if each.after is None else instead,
        )
        for each in shown.headers
    ]
    return replace(shown, headers=hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedVersion:
    """What tells that a failure is one of an edited message: under its retry, with its id or body."""

    edit_id: str
    of: str
    message_id: str
    body_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Editable:
    """A message as a person edits it.

    `headers` has what goes back, as texts; `fixed` names those of them that cannot be changed.
    `text` is None where the body is no text, or too large.
    """

    attempt_id: int
    headers: Mapping[str, str]
    fixed: frozenset[str]
    text: str | None
    packed: str
    charset: str
    size: int


def why_not_edit(
    status: FailedMessageStatus, disposition: Disposition, *, claimed: bool, dead: bool
) -> EditRefusal | None:
    """Return why a message in this state is not edited; None if it may be."""
    match status:
        case FailedMessageStatus.RETRY_ISSUED:
            return EditRefusal.ISSUED
        case FailedMessageStatus.ARCHIVED:
            return EditRefusal.ARCHIVED
        case FailedMessageStatus.RESOLVED:
            return EditRefusal.RESOLVED
        case FailedMessageStatus.UNRESOLVED if claimed:
            return EditRefusal.CLAIMED
        case FailedMessageStatus.UNRESOLVED:
            return EditRefusal.DEAD if disposition is Disposition.DEAD and not dead else None


def header_texts(values: Mapping[str, object]) -> dict[str, str]:
    """Return every value as text: whole, in the words in which people see and edit it."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in jsonable(values).items()
    }


def find_changes(
    before: Mapping[str, str], wanted: Iterable[tuple[str, str]]
) -> tuple[Mapping[str, str], frozenset[str]]:
    """Return which headers are set and which removed, of one who sends back all that are to be."""
    after = dict(wanted)
    told = {name: value for name, value in after.items() if before.get(name) != value}
    return told, frozenset(before.keys() - after.keys())


def compare_headers(before: Properties, after: Properties) -> Sequence[HeaderChange]:
    """Return the headers that differ, by name."""
    was, now = header_texts(before.headers), header_texts(after.headers)
    return [
        HeaderChange(name=name, before=was.get(name), after=now.get(name))
        for name in sorted(was.keys() | now.keys())
        if was.get(name) != now.get(name)
    ]


def show_editable(codec: PropertyCodec, original: StoredOriginal, attempt_id: int) -> Editable:
    """Return what a person can change of a message. Raises UnreadableProperties."""
    properties = codec.read(original.raw)
    found = Body(properties, original.body)
    texts = header_texts(properties.headers)
    return Editable(
        attempt_id=attempt_id,
        headers={
            name: value
            for name, value in texts.items()
            if not strips(original.dialect, name) and not _is_ours(name)
        },
        fixed=frozenset(LOCKED)
        | {n for n, v in properties.headers.items() if is_locked(n) or not _is_plain(v)},
        text=found.text,
        packed=found.packed,
        charset=found.charset,
        size=len(original.body),
    )


def edit_message(
    codec: PropertyCodec, original: StoredOriginal, changes: Changes, unique_id: str, new_id: str
) -> EditedMessage | EditRefused:
    """Return the message as it is to be sent, or why not. Raises UnreadableProperties.

    What is not named stays byte for byte as it came. `unique_id` is that of the message which it is
    an edited version of.
    """
    properties = codec.read(original.raw)
    changed = change(properties, Body(properties, original.body), changes, original.dialect)
    if isinstance(changed, EditRefused):
        return changed
    ids = {name: new_id for name in properties.headers if name in _ID_HEADERS}
    edit = Edit(
        drop_headers=lambda name: _is_ours(name) or name in changed.removed,
        set_headers={**changed.set_headers, **ids, headers.EDIT_OF: unique_id},
        set_fields={"message_id": new_id},
    )
    try:
        raw = codec.edit(original.raw, edit)
    except NotOfItsType as error:
        return EditRefused(why=EditRefusal.OTHER_TYPE, about=_short(str(error)))
    except (ValueError, OverflowError):
        # What AMQP cannot hold: a lone surrogate, as in JSON that escapes it.
        return EditRefused(why=EditRefusal.WRONG_TEXT, about="a header")
    too_large = why_grown_too_large(codec, original, raw, changed.body)
    if too_large is not None:
        return EditRefused(why=EditRefusal.DOES_NOT_FIT, about=too_large)
    return EditedMessage(raw=raw, body=changed.body, message_id=new_id)


def why_grown_too_large(
    codec: PropertyCodec, original: StoredOriginal, raw: bytes, body: bytes
) -> str | None:
    """Say why the broker would not take what a message has become; None of one that has shrunk."""
    if len(raw) + len(body) <= len(original.raw) + len(original.body):
        return None
    return codec.why_too_large(raw, body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What becomes of a message: its body, the headers that are set, and those that go."""

    body: bytes
    set_headers: Mapping[str, str | int]
    removed: frozenset[str]


def change(
    properties: Properties, found: "Body", changes: Changes, dialect: str
) -> Changed | EditRefused:
    """Return what these changes make of a message, or why they are not made."""
    body = _edit_body(found, changes)
    if isinstance(body, EditRefused):
        return body
    values = _read_headers(properties, changes, dialect)
    if isinstance(values, EditRefused):
        return values
    removed = changes.remove & properties.headers.keys()
    wanted = removed - values.keys()
    locked = next(filter(is_locked, sorted(wanted)), None)
    if locked is not None:
        return EditRefused(why=EditRefusal.LOCKED, about=locked)
    # A failure header that is removed, or one of ours, goes anyway: that is no change.
    gone = {each for each in wanted if not _is_ours(each) and not strips(dialect, each)}
    if body == found.content and not values and not gone:
        return EditRefused(why=EditRefusal.NOTHING)
    return Changed(body=body, set_headers=values, removed=wanted)


def is_locked(name: str) -> bool:
    """Say whether a header of this name cannot be changed or removed; case makes no difference."""
    return name.casefold() in _LOCKED


def _is_ours(name: str) -> bool:
    return name.casefold() in _STAMPS


def why_never_set(name: str, text: str) -> EditRefusal | None:
    """Say why no message may have this header with this text, whatever it has; None if one may."""
    return _why_not_set(name, text, "", "")


def _read_headers(
    properties: Properties, changes: Changes, dialect: str
) -> Mapping[str, str | int] | EditRefused:
    """Return the headers that really change, each as the type that it has; or the first refusal."""
    shown = header_texts(properties.headers)
    found: dict[str, str | int] = {}
    for name, text in changes.set_headers.items():
        if shown.get(name) == text:
            continue
        before = properties.headers.get(name, "")
        why = _why_not_set(name, text, before, dialect)
        if why is not None:
            return EditRefused(why=why, about=_short(name))
        value = _as_before(before, text)
        if value is None:
            return EditRefused(why=EditRefusal.OTHER_TYPE, about=_short(name))
        found[name] = value
    return found


def _why_not_set(name: str, text: str, before: object, dialect: str) -> EditRefusal | None:
    if not 0 < len(name.encode(errors="replace")) <= LONGEST_NAME or "\0" in name:
        return EditRefusal.NO_NAME
    is_kept = is_locked(name) or _is_ours(name) or strips_in_any_case(dialect, name)
    if is_kept or name in headers.FAN_OUT:
        return EditRefusal.LOCKED
    if "\0" in text or (not text.isascii() and _has_surrogate(text)):
        return EditRefusal.WRONG_TEXT
    return None if _is_plain(before) else EditRefusal.NO_TEXT


def _is_plain(value: object) -> bool:
    """Say whether a value of this type can be written as a text: a number or a truth is as well."""
    return isinstance(value, str | int)


def _as_before(before: object, text: str) -> str | int | None:
    """Return the text as the type that the header has; None if it is none of that type."""
    if isinstance(before, bool):
        return {"true": True, "false": False}.get(text.strip().lower())
    if not isinstance(before, int):
        return text
    number = int(text) if re.fullmatch(r"-?[0-9]{1,19}", text.strip()) else None
    return number if number is not None and -_LARGEST_INT <= number < _LARGEST_INT else None


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= each <= "\udfff" for each in text)


class Body:
    """A body as it came, what is in it, and the text that people read."""

    def __init__(self, properties: Properties, content: bytes) -> None:
        self.content = content
        said = packed_as(properties.fields, properties.headers)
        self.packed = said if said in PACKED else ""
        self.window: int | None = None
        self.plain = content
        if self.packed:
            self._unpack()
        self.content_type = str(properties.fields.get("content_type") or "")
        self.told = told_charset(self.content_type)
        self.charset = charset_of(self.content_type, self.plain)
        self.text = self._read()
        self._marked = not self.told and (self.text or "").startswith(MARK)

    @property
    def kind(self) -> str:
        """`JSON` or `XML` if it is that and is well-formed; else empty."""
        return "" if self.text is None else _kind_of(self.text, None if self.told else self.charset)

    def charset_for(self, text: str) -> str:
        """Return the charset in which a text is written in place of this one.

        What the content type names, or a mark of the byte order, holds for any text. XML that has
        neither is written as it declares itself: an edit may change the declaration.
        """
        if self.told or self._marked or not is_like_ascii(self.charset):
            return self.charset
        return charset_of("", text.encode(errors="replace"))

    def encode(self, text: str) -> bytes | None:
        """Return a text in its charset, with the mark that the body has; None if it cannot be."""
        marked = f"{MARK}{text.removeprefix(MARK)}" if self._marked else text
        try:
            return marked.encode(self.charset_for(text))
        except UnicodeEncodeError:
            return None

    def pack(self, plain: bytes) -> bytes:
        """Return bytes packed as the body came."""
        if self.window is None:
            return plain
        if self.packed.endswith("gzip"):
            return gzip.compress(plain, mtime=0)
        packer = zlib.compressobj(wbits=self.window)
        return packer.compress(plain) + packer.flush()

    def _unpack(self) -> None:
        """Unpack it; where that fails, or much too much comes out, it is edited as bytes."""
        for window in PACKED[self.packed]:
            reader = zlib.decompressobj(window)
            try:
                found = reader.decompress(self.content, MOST_BYTES)
            except zlib.error:
                continue
            if reader.eof and not reader.unused_data:
                self.plain, self.window = found, window
                return

    def _read(self) -> str | None:
        if len(self.plain) > MOST_BYTES or (self.packed and self.window is None):
            return None
        try:
            text = self.plain.decode(self.charset)
            again = text.encode(self.charset)
        except UnicodeError:
            return None
        # What does not come back as it was would be changed by an edit of a header.
        return text if again == self.plain and "\0" not in text else None


def _edit_body(found: Body, changes: Changes) -> bytes | EditRefused:
    if changes.body is not None:
        plain: bytes | None = changes.body
    elif changes.text is None:
        return found.content
    elif found.text is None:
        why = (
            EditRefusal.TOO_LARGE if len(found.plain) > MOST_BYTES else EditRefusal.BODY_IS_NO_TEXT
        )
        return EditRefused(why=why)
    else:
        plain = found.encode(changes.text)
    if plain is None:
        return EditRefused(
            why=EditRefusal.NOT_IN_CHARSET, about=found.charset_for(changes.text or "")
        )
    if plain == found.plain:
        return found.content
    broken = None if changes.broken else _why_broken(found, plain)
    if broken is not None:
        return EditRefused(why=EditRefusal.BROKEN, about=broken)
    return found.pack(plain)


def _why_broken(found: Body, plain: bytes) -> str | None:
    """Say why what was JSON or XML is none any more; None if it still is, or was none."""
    kind = found.kind
    if not plain and found.plain:
        return "it is empty"
    if not kind:
        return None
    charset = charset_of(found.content_type, plain)
    try:
        text = plain.decode(charset)
    except UnicodeDecodeError as error:
        return f"no {kind} in {charset}: {error.reason} at byte {error.start}"
    if kind == "JSON":
        return _why_no_json(text)
    return _why_no_xml(text, None if found.told else charset)


def _kind_of(text: str, charset: str | None) -> str:
    begins = text.removeprefix(MARK).lstrip()[:1]
    if begins and begins in '{["' and _why_no_json(text) is None:
        return "JSON"
    return "XML" if begins == "<" and _why_no_xml(text, charset) is None else ""


def _why_no_json(text: str) -> str | None:
    why = why_no_json(text.removeprefix(MARK))
    return None if why is None else f"no JSON: {why}"


def _why_no_xml(text: str, charset: str | None) -> str | None:
    """Say why a text is no XML; with the charset that it has, if its declaration is heeded."""
    if "<!DOCTYPE" in text:
        # It may define entities: those are not looked into.
        return "no XML without a type declaration"
    parser = expat.ParserCreate("utf-8")
    try:
        parser.Parse(text.removeprefix(MARK).encode())
        parser.Parse(b"", True)  # noqa: FBT003 - expat takes no name for it: that was all
    except (expat.ExpatError, ValueError) as error:
        return f"no XML: {error}"
    return None if charset is None else why_declared_wrongly(text, charset)


def _short(name: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in name[:100])
