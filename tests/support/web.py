"""The operator's page in the process of the test, with everything it needs under control."""

from collections.abc import Mapping, Sequence
from functools import partial
from html.parser import HTMLParser

import httpx

from retrier.api.middleware import RequestMiddleware
from retrier.app.policies import read_policy_text
from retrier.http.parts import have_none
from retrier.web.application import create_page, show_refusal
from retrier.web.counts import PageCounts
from retrier.web.live_page import LivePage
from retrier.web.live_values import live_values
from retrier.web.parts import Addition, OwnCounts, PageParts, QueueState
from tests.support.api import Api
from tests.support.bench import STAGING
from tests.support.factories import ERROR_QUEUE
from tests.support.http_client import client_of


class Web:
    """A page on the database of an API. `api` feeds and asks, `http` is the browser."""

    def __init__(self, api: Api, additions: Sequence[Addition] = ()) -> None:
        self.api = api
        self.live = LivePage()
        self.queues: Sequence[QueueState] = ()
        self.in_force = have_none()
        self.policy_text = ""
        self.counts = PageCounts(
            api.db,
            api.clock,
            lambda found, trouble: self.live.publish(live_values(found, trouble)),
        )
        of_api = api.app.state.parts
        self.parts = PageParts(
            db=api.db,
            sights=of_api.sights,
            own_counts=OwnCounts(api.clock).of,
            codec=of_api.codec,
            gateway=of_api.gateway,
            counts=self.counts,
            live=self.live,
            reads=of_api.reads,
            acts=of_api.acts,
            look_at=of_api.look_at,
            gate=of_api.gate,
            try_messages=of_api.try_messages,
            version="1.2.3",
            instance="retrier",
            health=of_api.health,
            queues=lambda: self.queues,
            session_id=of_api.session_id,
            field_names=of_api.field_names,
            full_text=of_api.full_text,
            additions=additions,
            policies=lambda: self.in_force,
            policy_text=lambda: self.policy_text,
            read_policies=partial(read_policy_text, own_queues=frozenset({ERROR_QUEUE, STAGING})),
            simulating=of_api.simulating,
        )
        page = create_page(self.parts)
        page.add_middleware(RequestMiddleware, callers=of_api.callers.of_page, show=show_refusal)
        self.http = client_of(page)

    def close(self) -> None:
        """Close the client."""
        self.http.close()

    def get(self, path: str, **params: str) -> str:
        """Return the HTML of a page that is there."""
        answer: httpx.Response = self.http.get(path, params=params or None)
        assert answer.status_code == 200, answer.text
        return answer.text

    def form(self, path: str, action: str) -> dict[str, str]:
        """Return the fields of the form on a page that posts to this address."""
        return forms_of(self.get(path))[action]

    def post(self, path: str, fields: Mapping[str, str]) -> httpx.Response:
        """Send a form as a browser does."""
        answer: httpx.Response = self.http.post(
            path, data=dict(fields), headers={"Origin": "http://localhost"}
        )
        return answer


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, dict[str, str]] = {}
        self._fields: dict[str, str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and given.get("method") == "post":
            self._fields = self.found.setdefault(given["action"], {})
        elif tag == "input" and self._fields is not None and _is_sent(given):
            self._fields.setdefault(given["name"], given.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._fields = None


def _is_sent(given: Mapping[str, str]) -> bool:
    """Say whether a browser sends this field if nobody touches it."""
    return given.get("type") not in {"checkbox", "radio"} or "checked" in given


def forms_of(html: str) -> dict[str, dict[str, str]]:
    """Return the fields of each form that posts, by the address it posts to."""
    parser = _Forms()
    parser.feed(html)
    return parser.found
