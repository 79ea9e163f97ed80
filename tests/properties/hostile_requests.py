"""Makes requests that no client of good manners sends: for each part, what has broken others."""

import json
from dataclasses import dataclass
from urllib.parse import quote

from hypothesis import strategies as st

from tests.support.bare_requests import Headers

_READS = (
    "GET errors",
    "GET errors/{}",
    "GET errors/last/{}",
    "GET errors/{}/attempts",
    "GET errors/{}/events",
    "GET errors/queues/addresses",
    "GET endpoints/{}/errors",
    "GET messages/{}/body",
    "GET recoverability/groups",
    "GET recoverability/groups/{}",
    "GET recoverability/groups/id/{}",
    "GET recoverability/groups/{}/errors",
    "GET operations",
    "GET operations/{}",
    "GET batches/{}",
    "GET imports",
    "GET imports/{}",
    "GET imports/{}/body",
    "GET redirects",
    "GET eventlogitems",
    "GET pendingretries",
    "GET recoverability/history",
    "GET recovery",
)
_ACTS = (
    "POST errors/{}/retry",
    "POST errors/queues/{}/retry",
    "POST errors/{}/retry/all",
    "POST recoverability/groups/{}/errors/retry",
    "PATCH errors/{}/archive",
    "PATCH errors/{}...{}/unarchive",
    "POST recoverability/groups/{}/errors/archive",
    "POST imports/{}/retry",
    "POST imports/retry",
    "DELETE imports/{}",
    "DELETE redirects/{}",
    "DELETE recovery",
    "DELETE recoverability/unacknowledgedgroups/{}",
)
_BODIES = (
    "POST operations",
    "POST operations/preview",
    "POST errors/retry",
    "PATCH errors/archive",
    "PATCH errors/unarchive",
    "POST pendingretries/retry",
    "POST pendingretries/queues/retry",
    "PATCH pendingretries/resolve",
    "PATCH pendingretries/queues/resolve",
    "POST imports/{}/send",
    "POST pendingretries/retry/all",
    "PATCH pendingretries/resolve/all",
    "POST redirects",
    "POST recovery",
    "POST recovery/retry",
    "PUT redirects/{}",
)
_RANGES = (
    "POST pendingretries/queues/retry",
    "PATCH pendingretries/resolve",
    "PATCH pendingretries/queues/resolve",
)

_PARAMETERS = [
    "status",
    "modified",
    "queueaddress",
    "queue",
    "endpoint",
    "group",
    "exception_type",
    "message_type",
    "reason",
    "stream",
    "failed_from",
    "failed_to",
    "attempts_at_least",
    "disposition",
    "text",
    "archived_by",
    "message_id",
    "id_prefix",
    "sort",
    "direction",
    "page",
    "per_page",
    "classifier",
    "classifierfilter",
    "error_queue",
    "older_than",
    "operation",
    "message",
    "kind",
]
_HEADERS = (
    b"if-none-match accept x-retrier-user idempotency-key content-type content-length "
    b"content-encoding origin range cookie"
).split()
_FIELDS = [
    "selection",
    "limit",
    "not_before",
    "in",
    "why",
    "plan",
    "destination",
    "from",
    "to",
    "queueaddress",
    "uniquemessageids",
    "fromphysicaladdress",
    "tophysicaladdress",
    "retryexisting",
    "to",
    "again",
    "FROM",
    "queue",
    "older_than",
    "since",
]
_TEXTS = (
    "",
    "0",
    "-1",
    "1e308",
    "NaN",
    "9" * 5000,
    "\u0663",
    "\u00b2",
    "a" * 70_000,
    "\ufdd0\uffff",
    "\U0001f4a9" * 500,
    "../../etc/passwd",
    "' OR 1=1 --",
    "%s%n{0}",
    "-" * 36,
    "0001-01-01T00:00:00+23:59",
    "0001-01-01T00:00:00+23:59...9999-12-31T23:59:59-23:59",
)
_TIMES = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-23:59",
)
_ENCODED = ("%ed%a0%80", "%c0%80", "%", "%zz", "%2f", "%2e%2e", "a/../b", "//", "%00", "?", "&=")
_LITERALS = (
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 5000,
    '"\\ud800"',
    '"\\u0000"',
    '"a\\u0000b"',
    "[" * 100_000,
    '{"a":' * 50_000,
    "true",
    '"' + "a" * 100_000 + '"',
    "[null]",
    '["", "a"]',
    '[["a"]]',
    '"0001-01-01T00:00:00+23:59"',
)

_parts = st.one_of(
    st.one_of(st.sampled_from(_TEXTS), st.text(max_size=50)).map(
        lambda text: quote(text.encode("utf-8", "replace"), safe="")
    ),
    st.binary(max_size=20).map(lambda some: quote(some, safe="")),
    st.sampled_from(_ENCODED),
)
_queries = st.lists(st.tuples(st.sampled_from(_PARAMETERS), _parts).map("=".join), max_size=4).map(
    "&".join
)
_headers = st.lists(st.tuples(st.sampled_from(_HEADERS), st.binary(max_size=60)), max_size=3)
_literals = st.one_of(st.sampled_from(_LITERALS), st.text(max_size=20).map(json.dumps))
_members = st.tuples(st.sampled_from(_FIELDS).map(json.dumps), _literals).map(":".join)
_times = st.sampled_from(_TIMES) | st.datetimes().map(lambda time: time.isoformat())
_ranges = st.fixed_dictionaries(
    {"from": _times, "to": _times, "queueaddress": st.sampled_from(["orders", "a\0b"])}
)
_documents = st.one_of(
    _literals,
    st.lists(_literals, max_size=4).map(lambda items: f"[{','.join(items)}]"),
    st.lists(_members, max_size=5).map(lambda members: f"{{{','.join(members)}}}"),
)
_bodies = st.one_of(
    _documents.map(str.encode),
    _documents.map(lambda text: text.encode("utf-16")),
    st.binary(max_size=50),
)


@dataclass(frozen=True, slots=True)
class HostileRequest:
    """A request as it comes off the wire."""

    method: str
    target: str
    headers: Headers
    body: bytes


@st.composite
def _requests(
    draw: st.DrawFn, routes: tuple[str, ...], bodies: st.SearchStrategy[bytes]
) -> HostileRequest:
    """Make a request for one of the routes; `{}` in them is filled."""
    method, path = draw(st.sampled_from(routes)).split(" ")
    target = f"/api/{path.replace('{}', draw(_parts))}?{draw(_queries)}"
    body = draw(bodies)
    kind = [(b"content-type", b"application/json")] if body else []
    return HostileRequest(method, target, [*kind, *draw(_headers)], body)


HOSTILE = {
    "reads": _requests(_READS, st.just(b"")),
    "acts": _requests(_ACTS, st.just(b"")),
    "bodies": _requests(_BODIES, _bodies),
    "ranges": _requests(_RANGES, _ranges.map(json.dumps).map(str.encode)),
}
"""What is asked for, and how such requests are made."""
