"""A client of the service's API. Results are JSON or bytes; errors say what to do.

Each call names the shape of the answer (`retrier/api/shapes`), which is the one that the route gives.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from urllib.parse import quote, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from retrier.domain.hosts import is_loopback
from retrier.domain.identity import is_guid
from retrier.domain.values import dataclass
from retrier.errors import RequestRefused, ServiceUnavailable


class Late:
    """Stands for a module that is loaded when something of it is used.

    To load `httpx` takes longer than what a person waits who has pressed the tabulator, and
    `retrier run` never uses it. A type checker has to be told of it by an import of its own.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


if TYPE_CHECKING:
    import httpx
else:
    httpx = Late("httpx")

Json = dict[str, Any]
T = TypeVar("T")
Params = Mapping[str, str | int]

LARGEST_PAGE = 500
"""Items that the service puts on one page at most."""

LARGEST_PAGE_OF_IDS = 2000
"""The same of a list that has nothing but ids; the service has room for twice as many."""

IDEMPOTENCY_KEY = b"Idempotency-Key"

_OURS = "X-Particular-Version"
"""A header of every answer of the service; an answer without it is somebody else's."""

_PERHAPS = "It may have been done all the same: look before you ask again."
_NO_CONTENT, _NOT_FOUND, _SERVER_ERROR = 204, 404, 500
_WRONG = (400, 422)
_ADVICE = (
    "Is the service running? Start it with `retrier run`, or say where it is with --url or "
    "RETRIER_URL."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T]):
    """Some items of a list, and the total number of its items."""

    total: int
    items: tuple[T, ...]


class WrongValue(RequestRefused):
    """The service cannot take a value as it stands: what was typed is wrong, whatever it holds.

    `reasons` say why by the name that the value has in the request.
    """

    def __init__(self, detail: str, reasons: Mapping[str, str]) -> None:
        self.reasons = reasons
        told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        super().__init__(told or detail)


class ApiClient:
    """A client of one service. Every call may raise ServiceUnavailable and RequestRefused."""

    def __init__(self, http: "httpx.Client", url: str) -> None:
        self._http = http
        self._url = url

    def find(self, shape: type[T], *path: str, **params: str | int) -> T:
        """Return the JSON object at a path under /api."""
        return self._object(shape, self._get(path, params))

    def texts(self, *path: str) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(self._items(str, self._get(path, {})))

    def page(self, shape: type[T], *path: str, **params: str | int) -> Listing[T]:
        """Return one page of a list."""
        answer = self._get(path, params)
        items = self._items(shape, answer)
        return Listing(total=self._total(answer, len(items)), items=tuple(items))

    def first(self, limit: int, shape: type[T], *path: str, **params: str | int) -> Listing[T]:
        """Return the first `limit` items of a list, from as many pages as needed."""
        size = min(limit, LARGEST_PAGE)
        items: list[T] = []
        total = 0
        for page in self._pages(shape, path, {**params, "per_page": size}):
            items += page.items
            total = page.total
            if len(items) >= limit:
                break
        return Listing(total=total, items=tuple(items[:limit]))

    def follow(
        self, limit: int, shape: type[T], *path: str, **params: str | int
    ) -> Iterator[Listing[T]]:
        """Yield the first `limit` items of a list as they come, page behind page, each once.

        One that leaves the list meanwhile makes none be missed that stays, as pages by number do.
        One that gets another place may come again: it was told already.
        """
        size = min(limit, LARGEST_PAGE_OF_IDS if shape is str else LARGEST_PAGE)
        seen, after, left = _Seen(), "*", limit
        while after and left:
            answer = self._get(path, {**params, "per_page": size, "after": after})
            items = [each for each in self._items(shape, answer) if seen.add(each)][:left]
            left -= len(items)
            yield Listing(total=self._total(answer, len(items)), items=tuple(items))
            after = answer.headers.get("Next-After", "")

    def body(self, *path: str, unpacked: bool = False) -> tuple[bytes, str, str]:
        """Return the body that is at a path under /api, its content type, and how it was packed."""
        answer = self._get(path, {"unpacked": "yes"} if unpacked else {})
        if answer.status_code == _NO_CONTENT:
            return b"", "", ""
        told = answer.headers
        return answer.content, told.get("Content-Type", ""), told.get("X-Retrier-Unpacked", "")

    @contextmanager
    def lines(
        self, path: Sequence[str], params: Mapping[str, str], headers: Mapping[str, str]
    ) -> Iterator[Iterator[str]]:
        """Yield the lines of an answer that does not end; a break is ServiceUnavailable, too."""
        query = {name: valid_text(value) for name, value in params.items()}
        address = address_of(path)
        try:
            with self._http.stream("GET", address, params=query, headers=dict(headers)) as answer:
                if not answer.is_success:
                    answer.read()
                yield self._checked(answer).iter_lines()
        except httpx.TransportError as error:
            raise self._out_of_reach(error) from error

    def ask(
        self,
        shape: type[T],
        path: Sequence[str],
        content: object,
        headers: Mapping[bytes, bytes],
    ) -> T:
        """POST a request; return the answer of the service.

        If the connection breaks after it was made, the request may or may not be accepted. The
        error then names the idempotency key, with which it can be repeated safely.
        """
        key = headers[IDEMPOTENCY_KEY].decode()
        advice = (
            "The request may have been accepted. Run the "
            f"command again with --idempotency-key {key}: it is never accepted twice."
        )
        return self._object(shape, self._send("POST", path, content, headers, advice))

    def look(self, shape: type[T], path: Sequence[str], content: object) -> T:
        """POST a question that changes nothing; return the answer of the service."""
        answer = self._send("POST", path, content, {}, "Nothing has changed.")
        return self._object(shape, answer)

    def act(
        self,
        shape: type[T],
        method: str,
        path: Sequence[str],
        content: object,
        headers: Mapping[bytes, bytes],
        params: Mapping[str, str] = MappingProxyType({}),
    ) -> T:
        """Have something done that can be looked at afterwards; return what came of it.

        When the connection breaks on the way nobody knows whether it was done.
        """
        answer = self._send(method, path, content, headers, _PERHAPS, params)
        return self._object(shape, answer)

    def do(
        self,
        method: str,
        path: Sequence[str],
        content: object,
        headers: Mapping[bytes, bytes],
        params: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Do the same where nothing comes of it but that it is done."""
        self._send(method, path, content, headers, _PERHAPS, params)

    def change(
        self,
        shape: type[T],
        path: Sequence[str],
        content: object,
        headers: Mapping[bytes, bytes],
    ) -> T:
        """PATCH something that may be done twice; return the answer of the service."""
        advice = (
            "Some of it may have been done. Run the command again: what was done is not done twice."
        )
        return self._object(shape, self._send("PATCH", path, content, headers, advice))

    def _send(
        self,
        method: str,
        path: Sequence[str],
        content: object,
        headers: Mapping[bytes, bytes],
        advice: str,
        params: Mapping[str, str] = MappingProxyType({}),
    ) -> "httpx.Response":
        """Send a request that changes something; `advice` is for when nobody knows whether it did.

        Raises ServiceUnavailable, RequestRefused.
        """
        try:
            answer = self._http.request(
                method,
                address_of(path),
                json=content,
                headers=dict(headers),
                params={name: valid_text(value) for name, value in params.items()},
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self._out_of_reach(error) from error
        except httpx.TransportError as error:
            raise ServiceUnavailable(f"{self._out_of_reach(error)}\n{advice}") from error
        return self._checked(answer)

    def _pages(self, shape: type[T], path: Sequence[str], params: Params) -> Iterator[Listing[T]]:
        number = 1
        while True:
            page = self.page(shape, *path, **params, page=number)
            yield page
            if not page.items or number * int(params["per_page"]) >= page.total:
                return
            number += 1

    def _get(self, path: Sequence[str], params: Params) -> "httpx.Response":
        try:
            query = {name: valid_text(str(value)) for name, value in params.items()}
            answer = self._http.get(address_of(path), params=query)
        except httpx.TransportError as error:
            raise self._out_of_reach(error) from error
        return self._checked(answer)

    def _checked(self, answer: "httpx.Response") -> "httpx.Response":
        if answer.status_code >= _SERVER_ERROR:
            raise ServiceUnavailable(f"The service at {self._url} cannot work: {_words(answer)}")
        if _OURS not in answer.headers:
            raise self._strange()
        if answer.status_code in _WRONG:
            raise _wrong_value(answer)
        if not answer.is_success:
            raise RequestRefused(_words(answer))
        return answer

    def _total(self, answer: "httpx.Response", otherwise: int) -> int:
        said = answer.headers.get("Total-Count", "")
        return int(said) if said.isdecimal() else otherwise

    def _object(self, _shape: type[T], answer: "httpx.Response") -> T:
        """Return what was answered as what it is: only that it is an object is looked at."""
        found = self._json(answer)
        if not isinstance(found, dict):
            raise self._strange()
        return cast("T", found)

    def _items(self, _shape: type[T], answer: "httpx.Response") -> list[T]:
        items = self._json(answer)
        if not isinstance(items, list):
            raise self._strange()
        return items

    def _json(self, answer: "httpx.Response") -> Any:
        try:
            return answer.json()
        except ValueError as error:
            raise self._strange() from error

    def _strange(self) -> ServiceUnavailable:
        return ServiceUnavailable(f"What answers at {self._url} is not Retrier. {_ADVICE}")

    def _out_of_reach(self, error: "httpx.TransportError") -> ServiceUnavailable:
        reason = str(error) or type(error).__name__
        return ServiceUnavailable(f"Cannot reach the service at {self._url}: {reason}. {_ADVICE}")


def fetch(url: str, headers: Mapping[str, str], seconds: float) -> bytes:
    """Return what a service answers within so many seconds, by what Python brings: `httpx` is late.

    As there, proxies of the environment are used, but not for loopback addresses, and no redirect is
    followed: it would take the token to somebody else. Raises ServiceUnavailable.
    """
    opener = OpenerDirector()
    proxies: dict[str, str] | None = {} if is_loopback(urlsplit(url).hostname or "") else None
    for handler in (ProxyHandler(proxies), HTTPHandler(), HTTPSHandler(), HTTPErrorProcessor()):
        opener.add_handler(handler)
    opener.add_handler(HTTPDefaultErrorHandler())
    asked = Request(url, headers=dict(headers))  # noqa: S310 - http or https, as `base` says
    try:
        with opener.open(asked, timeout=seconds) as answer:
            if _OURS in answer.headers:
                return bytes(answer.read())
    except (OSError, HTTPException, ValueError) as error:
        raise ServiceUnavailable(str(error)) from error
    raise ServiceUnavailable(f"What answers at {url} is not Retrier.")


class _Seen:
    """Which items were told already: of a million ids a set would take 120 MB, this takes 20."""

    def __init__(self) -> None:
        self._parts = [bytearray() for _ in range(4096)]

    def add(self, item: object) -> bool:
        """Add an item; say whether it is new."""
        told = str(item.get("id") if isinstance(item, dict) else item)
        if not is_guid(told):
            return True  # of a list in which nothing gets another place
        key = bytes.fromhex(told.replace("-", ""))
        part = self._parts[hash(key) % len(self._parts)]
        place = part.find(key)
        while place % len(key) and place > 0:  # it begins within another one
            place = part.find(key, place + 1)
        if place < 0:
            part += key
        return place < 0


def address_of(path: Sequence[str]) -> str:
    """Return the path of a URL that names what is at a path under /api."""
    return "/api/" + "/".join(_quoted(part) for part in path)


def _quoted(part: str) -> str:
    """Quote a part; `.` and `..` fully: resolved, they would make a retry one of everything."""
    return part.replace(".", "%2E") if part.strip(".") == "" else quote(valid_text(part), safe="")


def valid_text(typed: str) -> str:
    """Return typed text as valid Unicode: U+FFFD replaces bytes that are not UTF-8."""
    return typed.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _wrong_value(answer: "httpx.Response") -> WrongValue:
    """Return what is wrong. Its advice is left out: that is for who writes requests."""
    try:
        problem = answer.json()
        fields = {str(each["field"]): str(each["reason"]) for each in problem.get("errors", ())}
        return WrongValue(str(problem["detail"]), fields)
    except (ValueError, LookupError, TypeError, AttributeError):
        return WrongValue(_words(answer), {})


def _words(answer: "httpx.Response") -> str:
    """Return the detail of a problem, and its advice; 404 has no advice that helps here."""
    try:
        problem = answer.json()
        detail, advice = str(problem["detail"]), str(problem["advice"])
    except (ValueError, LookupError, TypeError):
        return f"it answered {answer.status_code} {answer.reason_phrase}".strip()
    sentence = detail if detail.endswith((".", "!", "?")) else f"{detail}."
    return detail if answer.status_code == _NOT_FOUND else f"{sentence} {advice}"
