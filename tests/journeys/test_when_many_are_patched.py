"""Many messages are sent with one patch: what is said before is what is sent, byte for byte."""

from typing import Any

import httpx
import pytest

from retrier.domain import headers
from retrier.domain.patches import PatchRefusal
from tests.journeys.conftest import ON_BOTH_BROKERS, Site
from tests.support.patching import put_plain
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

DEADLINE = 120
STORED = "SELECT count(*) FROM failed_messages"
PATCH = {
    "headers": {"set": {"X-Region": "eu"}, "remove": ["Shop.Tenant"]},
    "body": [{"op": "add", "path": "/region", "value": "eu"}],
}
REQUEST = {"selection": {"all": True}, "patch": PATCH}


def fail(site: Site, good: int, plain: int) -> dict[str, Any]:
    """Let messages fail; of some the body is no JSON."""
    put_plain(site.shop, plain)
    failed: dict[str, Any] = site.shop.fail(good)
    return failed


def started(site: Site) -> httpx.Client:
    service = site.host.start()
    service.wait_ready(DEADLINE)
    return service.http


def send_patched(site: Site, http: httpx.Client, total: int) -> Any:
    """Look at what the patch would make, have just that sent, and return what was said."""
    wait_until(lambda: site.count(STORED) == total, DEADLINE, "all are stored")
    found = http.post("/api/operations/preview", json=REQUEST, timeout=60).json()
    asked = http.post("/api/operations", json={**REQUEST, "plan": found["plan"]}, timeout=60)
    operation = f"/api/operations/{asked.json()['operation_id']}"
    wait_until(lambda: http.get(operation).json()["state"] == "completed", DEADLINE, "it completes")
    return {**found["patch"], "operation": http.get(operation).json()}


def assert_sent_as_said(site: Site, failed: dict[str, Any], said: Any, plain: int) -> list[Any]:
    assert said["is_all"]
    assert said["would_change"] == len(failed)
    assert said["would_not"] == [{"reason": str(PatchRefusal.NO_JSON), "count": plain}]
    counts = [said["operation"][name] for name in ("forwarded", "skipped", "failed")]
    assert counts == [len(failed), 0, plain]

    sent: list[Any] = site.shop.take(site.shop.orders, len(failed), DEADLINE)
    assert sorted(each.body for each in sent) == sorted(
        b'{"order":"%s","region":"eu"}' % message_id.encode() for message_id in failed
    )
    assert {each.headers["X-Region"] for each in sent} == {"eu"}
    assert not any("Shop.Tenant" in each.headers for each in sent)
    by_id = {each.headers[headers.UNIQUE_MESSAGE_ID]: each for each in sent}
    assert len(by_id) == len(failed)
    assert len(said["samples"]) == 5
    for sample in said["samples"]:
        assert by_id[sample["id"]].body == sample["body_after"].encode()
    return sent


def test_what_was_previewed_is_sent_once_and_its_outcomes_are_counted(site: Site) -> None:
    # Given 300 failed messages, and 7 that the patch cannot be applied to
    failed = fail(site, 300, 7)

    # When they are sent with a patch
    with started(site) as http:
        said = send_patched(site, http, 307)
        sent = assert_sent_as_said(site, failed, said, 7)

        # Then one that is confirmed is resolved, and one that fails again is the same message
        site.shop.confirm(sent[0])
        site.shop.fail_again(sent[1])
        operation = f"/api/operations/{said['operation']['id']}"
        wait_until(
            lambda: (
                [
                    http.get(operation).json()["outcomes"][name]
                    for name in ("confirmed", "came_back")
                ]
                == [1, 1]
            ),
            DEADLINE,
            "the outcomes are counted",
        )
    assert site.count(STORED) == 307


@pytest.mark.kills
@ON_BOTH_BROKERS
def test_ten_thousand_are_sent_as_they_were_previewed_but_37(site: Site) -> None:
    failed = fail(site, 9_963, 37)

    with started(site) as http:
        said = send_patched(site, http, 10_000)

    assert_sent_as_said(site, failed, said, 37)
