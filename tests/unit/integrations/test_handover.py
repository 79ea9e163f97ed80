"""What is told of a task that has ended: published, or owed and said, and never lost in silence."""

import json
import logging
from typing import Any

import pytest

from retrier.integrations.handover import (
    BEHIND_OTHERS,
    LONGEST_SAID,
    Account,
    Deed,
    Handover,
    Handovers,
    Owed,
    UnackedHold,
    describe_task,
)
from tests.support.waiting import wait_until

Caught = pytest.LogCaptureFixture
DEADLINE = 10


class Site:
    """The handovers, and a broker that can be away."""

    def __init__(self, wait: float = 0.01) -> None:
        self.is_away = True
        self.tried = 0
        self.account = Account()
        self.handovers = Handovers(self.account, Owed(wait, wait))

    def publish(self) -> None:
        self.tried += 1
        if self.is_away:
            raise ConnectionError("away")

    def hand_over(self, **more: Any) -> None:
        facts: dict[str, Any] = {
            "task": "shop.pack",
            "task_id": "b1",
            "queue": "error",
            "done": Deed.PUBLISHED,
            "left": Deed.UNPUBLISHED,
            "publish": self.publish,
            "publish_late": self.publish,
            "describe": str,
        }
        self.handovers.hand_over(Handover(**(facts | more)))


def test_what_is_published_is_counted() -> None:
    site = Site()
    site.is_away = False

    site.hand_over()

    assert site.account.counts == {"failure_published": 1}


def test_a_task_that_is_not_acknowledged_is_held_until_its_failure_is_published() -> None:
    site, hold, acts = Site(), UnackedHold(), []
    hold.keep(lambda: acts.append("acknowledged"))

    site.hand_over(hold=hold)
    assert (hold.is_owed, acts) == (True, [])
    site.is_away = False

    wait_until(lambda: acts == ["acknowledged"], DEADLINE)
    assert site.account.counts == {"failure_held_back": 1, "failure_published": 1}


def test_a_task_is_let_go_by_a_thread_that_may() -> None:
    site, hold, acts, asked = Site(), UnackedHold(), [], []
    hold.keep(lambda: acts.append("acknowledged"))
    site.hand_over(hold=hold, settle_by=asked.append)

    site.is_away = False
    wait_until(lambda: len(asked) == 1, DEADLINE)

    assert acts == []
    asked[0]()
    assert acts == ["acknowledged"]


def test_of_a_task_that_nobody_keeps_all_is_said_at_once_and_it_is_tried_again(
    caplog: Caught,
) -> None:
    site = Site()

    site.hand_over(rebuild=lambda: "all of it")

    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "shop.pack (b1)" in record.message
    assert record.message.endswith("away. The task: all of it")
    site.is_away = False
    wait_until(lambda: site.account.counts.get("failure_published") == 1, DEADLINE)
    assert site.account.counts["failure_not_published"] == 1


def test_what_comes_behind_others_finds_nothing_out_for_itself(caplog: Caught) -> None:
    site = Site(wait=60)

    site.hand_over()
    site.hand_over(task_id="b2")

    assert site.tried == 1
    assert BEHIND_OTHERS in caplog.records[-1].message


def test_what_there_is_no_room_for_is_said_to_be_tried_no_more(caplog: Caught) -> None:
    site = Site(wait=60)

    site.hand_over(size=1 << 40)

    assert "it is not tried again" in caplog.text


def test_a_task_is_described_by_all_that_is_needed_to_send_it_again() -> None:
    body = b'[["box"], {"gift": true}, {}]'

    said = json.loads(describe_task("shop.pack", "b1", "orders", {"lang": "py"}, body))

    assert said == {
        "task": "shop.pack",
        "id": "b1",
        "queue": "orders",
        "headers": {"lang": "py"},
        "body": [["box"], {"gift": True}, {}],
    }


def test_a_body_that_is_no_json_is_described_in_base_64() -> None:
    said = json.loads(describe_task("shop.pack", "b1", "orders", {"at": object()}, b"\x80\x02"))

    assert said["body"] == {"base64": "gAI="}


def test_a_description_is_bounded() -> None:
    said = describe_task("shop.pack", "b1", "orders", {}, b'"' + b"x" * 1_000_000 + b'"')

    assert len(said) < LONGEST_SAID + 100
    assert "cut off" in said
