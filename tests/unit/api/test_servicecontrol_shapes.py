"""ServiceControl's routes, one row for each: what its clients ask, and the answer they can read.

The shapes are those with which ServicePulse shows every screen. Members beside them do not matter.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from retrier.domain.failed_message import FailedMessageStatus, Failure
from tests.support.api import Api
from tests.support.raw_messages import delivery, nservicebus_headers
from tests.support.understood import failure

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
SPAN = re.compile(r"(\d+\.)?\d\d:\d\d:\d\d")
GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NOTHING: Mapping[str, object] = {}


@dataclass(frozen=True)
class Text:
    """A text, perhaps an empty one."""


TEXT = Text()
ENDPOINT = {"name": TEXT, "host": TEXT, "host_id": GUID}
EXCEPTION = {"exception_type": TEXT, "message": TEXT, "source": TEXT, "stack_trace": TEXT}
FAILED = {
    "id": GUID,
    "message_type": TEXT,
    "time_sent": TIME,
    "is_system_message": False,
    "exception": EXCEPTION,
    "message_id": TEXT,
    "number_of_processing_attempts": 1,
    "status": TEXT,
    "sending_endpoint": ENDPOINT,
    "receiving_endpoint": ENDPOINT,
    "queue_address": TEXT,
    "time_of_failure": TIME,
    "last_modified": TIME,
    "edited": False,
}
ATTEMPT = {
    "message_metadata": {"MessageType": TEXT, "MessageIntent": TEXT},
    "failure_details": {"address_of_failing_endpoint": TEXT, "exception": EXCEPTION},
    "attempted_at": TIME,
    "headers": {"NServiceBus.MessageId": TEXT},
}
VIEW = {
    "id": GUID,
    "message_id": TEXT,
    "message_type": TEXT,
    "sending_endpoint": ENDPOINT,
    "receiving_endpoint": ENDPOINT,
    "time_sent": TIME,
    "processed_at": TIME,
    "critical_time": SPAN,
    "processing_time": SPAN,
    "delivery_time": SPAN,
    "is_system_message": False,
    "conversation_id": TEXT,
    "headers": [{"key": TEXT, "value": TEXT}],
    "status": TEXT,
    "message_intent": TEXT,
    "body_url": TEXT,
    "body_size": 1,
    "instance_id": TEXT,
}
GROUP = {"id": GUID, "title": TEXT, "type": TEXT, "count": 1, "first": TIME, "last": TIME}
OPERATION = {
    **GROUP,
    "operation_status": "None",
    "operation_progress": 0.0,
    "need_user_acknowledgement": False,
}
CONFIGURATION = {
    "host": {"instance_name": TEXT, "logging": {"log_path": TEXT, "logging_level": TEXT}},
    "data_retention": {"error_retention_period": "10.00:00:00"},
    "performance_tunning": {},
    "persistence_settings": {},
    "transport": {"transport_type": TEXT, "error_queue": TEXT, "forward_error_messages": False},
    "plugins": {"heartbeat_grace_period": SPAN},
}
ENDPOINT_VIEW = {
    "id": GUID,
    "name": TEXT,
    "host_display_name": TEXT,
    "monitored": False,
    "monitor_heartbeat": False,
    "is_sending_heartbeats": False,
}
CHECK = {"connection_successful": True, "connection_error_messages": [], "diagnostics": ""}
NO_MAIL = {"detail": TEXT, "advice": TEXT}
RANGE = {"from": "1970-01-01T00:00:00.000Z", "to": "2100-01-01T00:00:00.000Z"}


@dataclass(frozen=True)
class Row:
    """A request as a client writes it, the status, and the shape of the answer; None: no JSON."""

    line: str
    status: int = 200
    shape: object = None
    content: object = None
    headers: tuple[str, ...] = field(default=())


COUNTED = ("Total-Count", "ETag")
ROWS = (
    Row("GET /", shape={"name": TEXT, "archived_groups_url": TEXT, "my_routes_url": TEXT}),
    Row("GET /errors?status=unresolved", shape=[FAILED], headers=COUNTED),
    Row("HEAD /errors?status=unresolved", headers=COUNTED),
    Row("GET /errors/{failed}", shape={**FAILED, "processing_attempts": [ATTEMPT]}),
    Row("GET /errors/last/{failed}", shape=FAILED),
    Row("GET /errors/summary", shape={"Endpoints": {}, "Hosts": {"shop-1": 1}}),
    Row(
        "GET /errors/queues/addresses",
        shape=[{"physical_address": TEXT, "failed_message_count": 3}],
        headers=COUNTED,
    ),
    Row("GET /endpoints/Sales/errors?status=unresolved", shape=[FAILED], headers=COUNTED),
    Row("POST /errors/retry", 202, content=["{failed}"]),
    Row("POST /errors/{failed}/retry", 202),
    Row("POST /errors/retry/all", 202),
    Row("POST /errors/Sales/retry/all", 202),
    Row("POST /errors/queues/sales/retry", 202),
    Row("PATCH /errors/archive/", 202, content=["{failed}"]),
    Row("POST /errors/archive", 202, content=["{failed}"]),
    Row("PATCH /errors/{failed}/archive", 202),
    Row("POST /errors/{failed}/archive", 202),
    Row("PATCH /errors/unarchive/", 202, content=["{archived}"]),
    Row("PATCH /errors/2026-01-01T00:00:00Z...2100-01-01T00:00:00Z/unarchive", 202),
    Row("GET /errors/groups/Message%20Type", shape=[GROUP], headers=COUNTED),
    Row("GET /errors/groups/", shape=[GROUP]),
    Row("GET /archive/groups/id/{archived_group}", shape=GROUP),
    Row("GET /edit/config", shape={"enabled": True, "locked_headers": [TEXT]}),
    Row("POST /edit/{failed}", 400, content={"message_body": "x", "message_headers": {}}),
    Row("POST /pendingretries/retry", 202, content=["{issued}"]),
    Row("POST /pendingretries/queues/retry", 202, content={"queueaddress": "sales", **RANGE}),
    Row("PATCH /pendingretries/resolve", 202, content={"uniquemessageids": ["{issued}"]}),
    Row("PATCH /pendingretries/queues/resolve", 202, content={"queueaddress": "sales", **RANGE}),
    Row("GET /recoverability/classifiers", shape=[TEXT], headers=("Total-Count",)),
    Row("GET /recoverability/groups/", shape=[OPERATION]),
    Row("GET /recoverability/groups/Message%20Type?classifierFilter=", shape=[OPERATION]),
    Row("GET /recoverability/groups/id/{group}", shape=GROUP),
    Row("GET /recoverability/groups/{group}/errors", shape=[FAILED], headers=COUNTED),
    Row("HEAD /recoverability/groups/{group}/errors", headers=COUNTED),
    Row("POST /recoverability/groups/{group}/errors/retry", 202),
    Row("POST /recoverability/groups/{group}/errors/archive", 202),
    Row("POST /recoverability/groups/{archived_group}/errors/unarchive", 202),
    Row("POST /recoverability/groups/{group}/comment?comment=50%%20%26%20more", 202),
    Row("DELETE /recoverability/groups/{group}/comment", 202),
    Row(
        "GET /recoverability/history",
        shape={"historic_operations": [], "unacknowledged_operations": []},
    ),
    Row("DELETE /recoverability/unacknowledgedgroups/{group}", 404),
    Row("GET /redirects", shape=[], headers=COUNTED),
    Row("POST /redirects", 201, content={"fromphysicaladdress": "a", "tophysicaladdress": "b"}),
    Row("PUT /redirects/{failed}", 404, content={"tophysicaladdress": "c"}),
    Row("DELETE /redirects/{failed}", 204),
    Row("HEAD /redirect", headers=("Total-Count",)),
    Row("GET /messages/{failed}/body", headers=("Content-Type", "ETag")),
    Row("GET /messages", shape=[VIEW], headers=COUNTED),
    Row("GET /messages2/?page_size=10&sort=time_sent&direction=desc", shape=[VIEW]),
    Row("GET /messages/search?q=Shop", shape=[VIEW], headers=COUNTED),
    Row("GET /messages/search/orders%2F1", shape=[VIEW], headers=COUNTED),
    Row("GET /endpoints/Sales/messages", shape=[VIEW], headers=COUNTED),
    Row("GET /endpoints/Sales/messages/search?q=Shop", shape=[VIEW], headers=COUNTED),
    Row("GET /endpoints/Sales/messages/search/Shop", shape=[VIEW], headers=COUNTED),
    Row("GET /conversations/talk-1", shape=[VIEW], headers=COUNTED),
    Row("GET /eventlogitems?page=1&per_page=10", shape=[], headers=COUNTED),
    Row("GET /configuration", shape=CONFIGURATION),
    Row("GET /instance-info", shape=CONFIGURATION),
    Row("GET /configuration/remotes", shape=[]),
    Row("GET /authentication/configuration", shape={"enabled": False, "api_scopes": "[]"}),
    Row("GET /my/routes", shape={"roles": [], "routes": [{"method": TEXT, "url_template": TEXT}]}),
    Row(
        "GET /license?refresh=true&clientName=servicepulse",
        shape={"license_status": "Valid", "trial_license": False, "expiration_date": ""},
    ),
    Row("GET /license/details", 204),
    Row("POST /license/detailsUpload", 404),
    Row("GET /endpoints", shape=[ENDPOINT_VIEW]),
    Row("OPTIONS /endpoints", 204, headers=("Allow",)),
    Row("PATCH /endpoints/{failed}", 404, content={"monitor_heartbeat": True}),
    Row("DELETE /endpoints/{failed}", 404),
    Row("GET /endpoints/known", shape=[]),
    Row("GET /endpoints/Sales/audit-count", shape=[]),
    Row("GET /endpointssettings", shape=[{"name": "", "track_instances": True}]),
    Row("PATCH /endpointssettings/Sales", 404, content={"track_instances": True}),
    Row("GET /heartbeats/stats", shape={"active": 0, "failing": 0}),
    Row("GET /customchecks?status=fail&page=1", shape=[], headers=("Total-Count",)),
    Row("DELETE /customchecks/{failed}", 404),
    Row(
        "GET /connection",
        shape={"settings": {"ErrorQueue": TEXT, "Heartbeats": {}}, "errors": []},
    ),
    Row("GET /notifications/email", shape={"enabled": False, "enable_tls": False}),
    Row("POST /notifications/email", 404, NO_MAIL, {}, ("X-Particular-Reason",)),
    Row("POST /notifications/email/toggle", 404, NO_MAIL, {}, ("X-Particular-Reason",)),
    Row("POST /notifications/email/test", 404, NO_MAIL, None, ("X-Particular-Reason",)),
    Row("GET /sagas/{failed}", 204),
    Row(
        "GET /licensing/settings/test", shape={"transport": TEXT, "broker_connection_result": CHECK}
    ),
    Row("GET /licensing/settings/info", shape={"broker": []}),
    Row("GET /licensing/settings/masks", shape=[]),
    Row("GET /licensing/endpoints", shape=[]),
    Row("GET /licensing/report/available", shape={"report_can_be_generated": False}),
)
"""The routes of ServiceControl 6.19, and those for usage that ServicePulse asks for beside them.

What stays 404 belongs to heartbeats, custom checks, mails, edits and usage: record 0094.
"""


def fits(value: Any, shape: object) -> bool:
    """Say whether a value has a shape; each item of a list that is not meant to be empty does."""
    match shape:
        case None:
            return True
        case Text():
            return isinstance(value, str)
        case re.Pattern():
            return isinstance(value, str) and shape.fullmatch(value) is not None
        case dict():
            return isinstance(value, dict) and all(
                name in value and fits(value[name], member) for name, member in shape.items()
            )
        case [member]:
            return isinstance(value, list) and bool(value) and all(fits(x, member) for x in value)
        case _:
            return bool(value == shape and type(value) is type(shape))


def failed(message_id: str) -> Failure:
    """Make a failure as an NServiceBus endpoint tells it."""
    told = {
        "NServiceBus.MessageId": message_id,
        "NServiceBus.ExceptionInfo.Source": "Shop.Store",
        "NServiceBus.OriginatingEndpoint": "Shop",
        "NServiceBus.OriginatingMachine": "web-1",
        "NServiceBus.ConversationId": "talk-1",
        "NServiceBus.MessageIntent": "Send",
        "$.diagnostics.hostdisplayname": "shop-1",
        "$.diagnostics.hostid": "0123456789abcdef0123456789abcdef",
        "$.diagnostics.originating.hostid": "0123456789abcdef0123456789abcdef",
    }
    return failure(delivery(nservicebus_headers(**told), body=b"{"))


@pytest.fixture
def named(api: Api) -> Mapping[str, str]:
    """Give ids: of a message that failed, one that is archived, and one whose retry is issued."""
    one, archived, issued = api.receive(failed("orders/1"), failed("archived"), failed("issued"))
    api.set_status(archived, FailedMessageStatus.ARCHIVED)
    api.set_status(issued, FailedMessageStatus.RETRY_ISSUED)
    (group, *_) = api.get("recoverability/groups/Message%20Type")
    return {
        "failed": one,
        "archived": archived,
        "issued": issued,
        "group": group["id"],
        "archived_group": group["id"],
    }


def filled(text: str, named: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: named[found[1]], text)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.line)
def test_a_route_answers_as_its_clients_expect(
    api: Api, named: Mapping[str, str], row: Row
) -> None:
    method, _, path = row.line.partition(" ")
    content = row.content
    if isinstance(content, list):
        content = [filled(each, named) for each in content]
    elif isinstance(content, dict) and "uniquemessageids" in content:
        content = {"uniquemessageids": [named["issued"]]}

    answer = api.http.request(method, f"/api{filled(path, named)}", json=content)

    assert answer.status_code == row.status, answer.text
    assert set(row.headers) <= {name.title().replace("Etag", "ETag") for name in answer.headers}
    assert answer.headers["X-Particular-Version"] == "6.19.2"
    if row.shape is not None:
        assert fits(answer.json(), row.shape), answer.text


def test_nothing_says_that_masstransit_is_connected(api: Api) -> None:
    """With this member, whatever its value, ServicePulse hides what it shows of NServiceBus."""
    assert "mass_transit_connector" not in api.get("configuration")
    assert "mass_transit_connector" not in api.get("instance-info")
