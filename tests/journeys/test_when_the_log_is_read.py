"""The log of a service that lives through everything: the ids are there, the secrets are not."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pika
import pytest
import yaml
from sqlalchemy import make_url

from retrier.domain import headers
from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.databases import sqlite_url
from tests.support.service import Service, hosted
from tests.support.shop import Shop, failure_headers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

SECRET = "card-4711"
ON_SERVERS = pytest.mark.parametrize(
    "kind", [pytest.param("quorum", marks=RABBITMQ_AND_POSTGRES)], indirect=True
)


def publish(shop: Shop, more: Mapping[str, Any], body: str = f"body {SECRET}") -> None:
    """Put a message on the error queue that holds the secret wherever it can."""
    shop.channel.basic_publish(
        "",
        shop.error,
        body.encode(),
        pika.BasicProperties(
            message_id=str(uuid4()),
            correlation_id=SECRET,
            headers={"Shop.Card": SECRET, "Shop.Nested": {"card": [SECRET]}, **more},
        ),
    )


def fail(shop: Shop, queue: str) -> None:
    """Put a failed message on the error queue, with the secret in what says why it failed."""
    told = {
        "NServiceBus.ExceptionInfo.Message": f"no such card: {SECRET}",
        "NServiceBus.ExceptionInfo.StackTrace": f"no such card: {SECRET}\n   at Shop.Pay('{SECRET}')",
    }
    publish(shop, {**failure_headers(queue), **told})


def give_password(site: Site) -> None:
    """Put the secret into the URL of the database, which trusts everybody on this machine."""
    settings = yaml.safe_load(site.host.config.read_text())
    url = make_url(site.database_url)
    settings["database"]["url"] = url.set(
        username=url.username or "postgres", password=SECRET
    ).render_as_string(hide_password=False)
    site.host.config.write_text(yaml.safe_dump(settings))


def is_told(service: Service, event: str, count: int = 1) -> bool:
    return service.names().count(event) >= count


def lines_of(service: Service, event: str) -> list[dict[str, Any]]:
    return [line for line in service.logged if line.get("event") == event]


def retry_all(service: Service) -> None:
    with service.http as http:
        wait_until(lambda: http.get("/api/errors").headers["Total-Count"] == "3", 60)
        assert http.post("/api/errors/retry/all").status_code == 202


@ON_SERVERS
def test_nothing_of_a_message_and_no_password_is_in_the_log(site: Site) -> None:
    # Given messages that can be retried, cannot be retried, and cannot be understood
    give_password(site)
    fail(site.shop, site.shop.orders)
    fail(site.shop, "nowhere")
    fail(site.shop, site.shop.error)
    publish(site.shop, {})
    publish(site.shop, {"ServiceControl.Retry.Successful": SECRET})
    publish(site.shop, {headers.STAGING_ID: SECRET, headers.INSTALLATION_ID: SECRET}, body="")
    anothers = {headers.STAGING_ID: str(uuid4()), headers.INSTALLATION_ID: str(uuid4())}
    publish(site.shop, anothers, body="")
    service = site.host.start_ready()

    # When all are retried, and one of them fails again
    retry_all(service)
    (sent,) = site.shop.take(site.shop.orders, 1)
    site.shop.fail_again(sent)
    wait_until(lambda: is_told(service, "operation.completed"), 60)
    service.stop()

    # Then everything was told, and nothing of the messages
    told = {"message.ejected", "message.reverted", "ingestion.failed_import"}
    assert told | {"ingestion.copy_of_another"} <= set(service.names())
    assert SECRET not in json.dumps(service.logged)


@ON_SERVERS
def test_the_ids_of_a_retry_lead_through_the_log(site: Site) -> None:
    fail(site.shop, site.shop.orders)
    fail(site.shop, "nowhere")
    fail(site.shop, site.shop.error)
    service = site.host.start_ready()

    retry_all(service)
    wait_until(lambda: is_told(service, "operation.completed"), 60)
    service.stop()

    (completed,) = lines_of(service, "operation.completed")
    (staged,) = lines_of(service, "batch.staged")
    steps = ("batch.marked", "batch.staged", "batch.forwarding", "batch.forwarded")
    gone = ("message.ejected", "message.reverted")
    told = [line for event in (*steps, *gone) for line in lines_of(service, event)]
    assert len(told) == len(steps) + len(gone)
    assert {line["operation_id"] for line in told} == {completed["operation_id"]}
    assert {line["batch_id"] for line in told} == {staged["batch_id"]}
    assert all(line["unique_message_id"] for event in gone for line in lines_of(service, event))


@pytest.mark.rabbitmq
def test_a_password_that_is_refused_is_not_in_the_log(
    amqp_url: str, queue_name: Callable[..., str], tmp_path: Path
) -> None:
    address = make_url(amqp_url)
    settings = {
        "instance": queue_name("instance"),
        "broker": {"url": f"amqp://guest:{SECRET}@{address.host}:{address.port or 5672}//"},
        "database": {"url": sqlite_url(tmp_path)},
        "api": {"port": 0},
    }
    with hosted(tmp_path, settings) as host:
        service = host.start()

        wait_until(lambda: is_told(service, "broker.unreachable"), 30)
        service.stop()

    assert "ACCESS_REFUSED" in json.dumps(service.logged)
    assert SECRET not in json.dumps(service.logged)


def test_the_log_takes_the_form_that_the_environment_asks_for(tmp_path: Path) -> None:
    service = Service(
        None, {"RETRIER_LOG__FORMAT": "console", "RETRIER_API__PORT": "0"}, (), tmp_path
    )

    wait_until(lambda: "Retrier is up" in str(service.logged), 30)
    service.stop()

    assert {line["event"] for line in service.logged} == {"unreadable"}
