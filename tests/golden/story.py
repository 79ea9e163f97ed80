"""What happens before anything is recorded: messages come into every state that there is.

Everything goes the way it goes in a service: bytes on the error queue, requests to the API, turns
of the processor. `known` holds by name what the story has made, for the addresses of requests.
"""

from collections.abc import Mapping
from typing import Any

from retrier.domain.wire import Delivery
from tests.golden.world import World
from tests.support.raw_messages import nservicebus_headers, rabbitmq_headers, raw_properties

HOSTILE = "Süd \u202e 'quoted' \"twice\" <b>&amp;</b> \\ \U0001f600"
FAILED = "2026-05-04T12:{:02}:00+00:00"

Known = dict[str, str]


def failure(number: int, **changes: object) -> dict[str, object]:
    """Return the headers of a failure."""
    headers = {
        "Retrier.FailedQueue": "orders",
        "Retrier.TimeOfFailure": FAILED.format(number),
        "Retrier.Exception.Type": "Shop.OutOfStock",
        "Retrier.Exception.Message": f"nothing left of article {number}",
        "Retrier.Exception.StackTrace": (
            "Shop.OutOfStock: nothing left\n   at Shop.Stock.Take(String item)"
        ),
        "Retrier.MessageType": "Shop.PlaceOrder",
        "Retrier.Endpoint": "Sales",
        "Retrier.Host": "shop-1",
        "Retrier.Process": "4711",
        "Shop.Tenant": "north",
    }
    given = {name.replace("_", "."): value for name, value in changes.items()}
    return {name: value for name, value in (headers | given).items() if value is not None}


class Story:
    """Tells the story to a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.known: Known = {"nobody": "0f0f0f0f-0000-4000-8000-00000000000f"}

    def tell(self) -> Known:
        """Let everything happen."""
        self.fail()
        self.fail_to_be_read()
        self.retry_some()
        self.break_down()
        self.put_away()
        self.say_more()
        self.leave_operations()
        self.world.page.counts.tick()
        return self.known

    def fail(self) -> None:
        """Let messages fail that a person decides about, that policies do, and that are a stream."""
        for number in range(1, 7):
            self._fail(f"order-{number}", failure(number))
        validation = {"Retrier_Exception_Type": "ValueError", "Retrier_Reason": "validation"}
        self._fail("dead-by-policy", failure(7, Retrier_FailedQueue="ledger", **validation))
        self._fail("scheduled", failure(7, Retrier_FailedQueue="monthly"))
        for number in (8, 9):
            self._fail(f"invoice-{number}", failure(number, Retrier_FailedQueue="invoices"))
        for number in (10, 11, 12):
            step = {"Retrier_Stream": "order 42", "Retrier_StreamPosition": str(number)}
            headers = failure(number, Retrier_MessageType="Shop.Step", **step)
            self._fail(f"step-{number}", headers)
        for number in range(13, 18):
            self._fail(f"payment-{number}", failure(number, Retrier_FailedQueue="payments"))
        for number in (20, 21, 22):
            self._fail(f"fixed-{number}", failure(number, Retrier_FailedQueue="fixed"))
        self._fail("hostile", failure(18, Retrier_Exception_Message=HOSTILE), b"\xff\x00<b>")
        self._fail("empty", failure(19, Retrier_Host=None, Retrier_Process=None), b"")
        self._put(nservicebus_headers(), b"<order id='1'/>", content_type="text/xml")
        self._put(rabbitmq_headers(), b"plain", message_id="by-the-broker")
        self.world.work()
        for each in self._get("errors", per_page=500):
            self.known[each["message_id"]] = each["id"]

    def fail_to_be_read(self) -> None:
        """Let messages arrive that nobody understands."""
        self.world.put(b"\xff\xff\xff", b"its properties cannot be read")
        self._put({"Shop.Tenant": "south"}, b"no failure headers", message_id="stray-1")
        self._put({"Shop.Tenant": "south"}, b"", message_id="stray-2")
        self._put({"Shop.Tenant": "south"}, b'{"text": "S\xc3\xbcd"}', message_id="stray-3")
        self.world.work()
        for number, each in enumerate(self._get("imports", direction="asc")):
            self.known[f"import-{number}"] = each["id"]

    def retry_some(self) -> None:
        """Retry a few: one is confirmed, one fails again, one stays pending."""
        self.world.clock.advance(60)
        ids = [self.known[f"order-{number}"] for number in (1, 2, 3)]
        done = self._post("errors/retry", ids, **{"Idempotency-Key": "monday-1"})
        self.known["operation"] = done["operation_id"]
        self.world.work()
        first, second, _pending = self.world.taken("orders")
        self.world.clock.advance(30)
        self._confirm(first)
        again = failure(20) | {"Retrier.Exception.Type": "Shop.GatewayError"}
        said = {name: str(value) for name, value in again.items()}
        self.world.fail_again(second, said | {"Retrier.Exception.Message": "it answered 503"})
        self.world.work()

    def break_down(self) -> None:
        """Let so many retries of one queue come back that its breaker opens."""
        ids = [self.known[f"payment-{number}"] for number in range(13, 17)]
        self._post("errors/retry", ids)
        self.world.work()
        for number, each in enumerate(self.world.taken("payments")):
            headers = failure(30 + number, Retrier_FailedQueue="payments")
            self.world.fail_again(each, {name: str(value) for name, value in headers.items()})
        self.world.clock.advance(20)
        self.world.work()
        self._post("errors/retry", ids[:2])
        self.world.work()

    def put_away(self) -> None:
        """Archive one, resolve one by hand, declare one dead; and a queue is redirected."""
        self.world.clock.advance(10)
        archived = {"act": "archive", "selection": {"ids": [self.known["order-4"]]}, "why": "old"}
        self.known["archiving"] = self._post("archive_operations", archived)["operation_id"]
        resolved = {"act": "resolve", "selection": {"ids": [self.known["empty"]]}}
        self.known["resolving"] = self._post("archive_operations", resolved)["operation_id"]
        self._post(f"errors/{self.known['hostile']}/dead", {"why": "nobody can read it"})
        redirect = {"fromphysicaladdress": "sales", "tophysicaladdress": "orders"}
        self._post("redirects", redirect)
        self.known["redirect"] = self._get("redirects")[0]["message_redirect_id"]
        self.world.work()

    def say_more(self) -> None:
        """Comment on a group; send an import that is then in doubt."""
        groups = self._get("recoverability/groups")
        for number, each in enumerate(sorted(groups, key=lambda group: str(group["title"]))):
            self.known[f"group-{number}"] = each["id"]
        self.known["group"] = next(each["id"] for each in groups if "OutOfStock" in each["title"])
        path = f"recoverability/groups/{self.known['group']}/comment"
        self._post(f"{path}?comment=ask the warehouse", None)

    def leave_operations(self) -> None:
        """Leave operations that wait for a time, for a person and for a canary, and a batch."""
        self.world.clock.advance(10)
        one = {"ids": [self.known["order-5"]]}
        later = {"selection": one, "not_before": "2026-05-05T06:00:00Z", "why": "at night"}
        self.known["later"] = self._post("operations", later)["operation_id"]
        canary = {"selection": {"queue": "fixed"}, "canary": 1, "rate": 5}
        self.known["canary"] = self._post("operations", canary)["operation_id"]
        self.world.work()
        paused = {"selection": {"ids": [self.known["order-6"]]}, "destination": "invoices"}
        self.known["paused"] = self._post("operations", paused)["operation_id"]
        self._ask("PATCH", f"operations/{self.known['paused']}", {"paused": True})
        self.world.work()
        alive = self._post("errors/retry", [self.known["5f2a"], self.known["by-the-broker"]])
        self.known["alive"] = alive["operation_id"]
        self.world.process()
        for each in self._get("batches"):
            self.known["batch"] = each["id"]

    def _fail(self, name: str, headers: Mapping[str, object], body: bytes | None = None) -> None:
        body = b'{"name": "%s"}' % name.encode() if body is None else body
        self._put(headers, body, message_id=name, content_type="application/json")

    def _put(self, headers: Mapping[str, object], body: bytes, **fields: object) -> None:
        self.world.put(raw_properties(headers, **fields), body)

    def _confirm(self, retry: Delivery) -> None:
        properties = self.world.transport.codec.read(retry.raw)
        name = "ServiceControl.Retry.UniqueMessageId"
        headers = {"ServiceControl.Retry.Successful": "2026-05-04 13:01:20:000000 Z"}
        self._put({**headers, name: properties.text(name)}, b"")

    def _get(self, path: str, **params: object) -> Any:
        return self._ask("GET", path, None, params=params)

    def _post(self, path: str, content: object, **headers: str) -> Any:
        return self._ask("POST", path, content, headers=headers)

    def _ask(self, method: str, path: str, content: object, **more: Any) -> Any:
        if method != "GET":
            self.world.clock.advance(1)
        headers = {"X-Retrier-User": "ada", **more.pop("headers", {})}
        answer = self.world.http.request(
            method, f"/api/{path}", json=content, headers=headers, **more
        )
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json() if answer.content else {}
