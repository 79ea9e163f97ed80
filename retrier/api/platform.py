"""What ServiceControl's clients ask of the rest of its platform, which is not here.

Heartbeats, custom checks, sagas, audits, mails and licenses: each answer is the one of a
ServiceControl that has none of them. With a 404 ServicePulse shows errors on pages that have
nothing to do with these.
"""

from fastapi import Request, Response

from retrier.api.answers import HEADERS, TOTAL_COUNT, Answer, Refusal, Routes, answer, problem
from retrier.api.parts import Parts
from retrier.api.shapes import OnlyId
from retrier.api.shapes import service as shapes
from retrier.domain.identity import md5_guid
from retrier.store.groups import list_endpoints

router = Routes(prefix="/api", tags=["platform"])

_NOT_HERE = "X-Particular-Reason"
_NO_MAIL = "Retrier sends no mails. See notices and alert rules in its documentation."
_WELL: shapes.ConnectionTest = {
    "connection_successful": True,
    "connection_error_messages": [],
    "diagnostics": "",
}


@router.get("/endpoints")
def get_endpoints(request: Request, parts: Parts) -> Answer[list[shapes.KnownEndpoint]]:
    """List the endpoints at which messages failed. None of them sends heartbeats here."""
    names = parts.cache.get("endpoints", lambda: list_endpoints(parts.db))
    items: list[shapes.KnownEndpoint] = [
        {
            "id": md5_guid(name),
            "name": name,
            "host_display_name": "",
            "monitored": False,
            "monitor_heartbeat": False,
            "is_sending_heartbeats": False,
        }
        for name in names
    ]
    return answer(request, items)


@router.get("/endpoints/known")
def get_known_endpoints(request: Request) -> Answer[list[shapes.KnownEndpoint]]:
    """List the endpoints that audited messages name: none."""
    return answer(request, [])


@router.get("/endpoints/{name:path}/audit-count")
def get_audit_count(request: Request, name: str) -> Answer[list[shapes.AuditCount]]:  # noqa: ARG001 - the same of each
    """List how many audited messages an endpoint had on each day: none."""
    return answer(request, [])


@router.get("/endpointssettings")
def get_endpoint_settings(request: Request) -> Answer[list[shapes.EndpointSettings]]:
    """List how instances of endpoints are tracked: the default, which clients expect to find."""
    return answer(request, [{"name": "", "track_instances": True}])


@router.get("/heartbeats/stats")
def get_heartbeats(request: Request) -> Answer[shapes.Heartbeats]:
    """Count the endpoints with and without a heartbeat: none."""
    return answer(request, {"active": 0, "failing": 0})


@router.get("/customchecks")
def get_custom_checks(request: Request, status: str = "") -> Answer[list[OnlyId]]:  # noqa: ARG001 - of any
    """List the custom checks: none."""
    return answer(request, [], {TOTAL_COUNT: "0"})


@router.delete("/customchecks/{check_id}", status_code=404)
def delete_custom_check(check_id: str) -> Refusal:
    """Refuse to delete a custom check: there is none."""
    return problem(404, f"No custom check has the id {check_id[:100]}: there are none here.")


@router.get("/sagas/{saga_id}", status_code=204, response_class=Response)
def get_saga(saga_id: str) -> Response:  # noqa: ARG001 - the same of each
    """Answer 204: nothing is known of any saga."""
    return Response(status_code=204, headers=HEADERS)


@router.get("/license")
def get_license(
    request: Request,
    parts: Parts,
    refresh: str = "",  # noqa: ARG001 - clients send it
    clientname: str = "",  # noqa: ARG001 - clients send it
) -> Answer[shapes.License]:
    """Return a license that never ends: none is needed."""
    shown: shapes.License = {
        "trial_license": False,
        "edition": "none is needed",
        "registered_to": "",
        "upgrade_protection_expiration": "",
        "expiration_date": "",
        "status": "valid",
        "license_type": "",
        "instance_name": parts.configured.instance,
        "license_status": "Valid",
        "products": [],
        "has_endpoint_metadata": False,
        "license_extension_url": "",
    }
    return answer(request, shown)


@router.get("/license/details", status_code=204, response_class=Response)
def get_license_details() -> Response:
    """Answer 204: there are none."""
    return Response(status_code=204, headers=HEADERS)


@router.get("/licensing/settings/test")
def get_usage_test(request: Request, parts: Parts) -> Answer[shapes.UsageTest]:
    """Say that nothing is wrong with connections that count usage: nothing counts it."""
    shown: shapes.UsageTest = {
        "transport": parts.configured.broker,
        "audit_connection_result": _WELL,
        "monitoring_connection_result": _WELL,
        "broker_connection_result": _WELL,
    }
    return answer(request, shown)


@router.get("/licensing/settings/info")
def get_usage_settings(request: Request) -> Answer[shapes.UsageSettings]:
    """List the settings by which usage is counted: none."""
    return answer(request, {"service_control": [], "monitoring": [], "broker": []})


@router.get("/licensing/settings/masks")
def get_usage_masks(request: Request) -> Answer[list[str]]:
    """List the words that a report of usage leaves out: none."""
    return answer(request, [])


@router.get("/licensing/endpoints")
def get_usage_endpoints(request: Request) -> Answer[list[OnlyId]]:
    """List the endpoints whose usage is counted: none."""
    return answer(request, [])


@router.get("/licensing/report/available")
def get_usage_report(request: Request) -> Answer[shapes.UsageReport]:
    """Say that there is no report of usage."""
    shown: shapes.UsageReport = {
        "report_can_be_generated": False,
        "reason": "Retrier does not count usage.",
    }
    return answer(request, shown)


@router.get("/notifications/email")
def get_mail_settings(request: Request) -> Answer[shapes.MailSettings]:
    """Say that no mails are sent."""
    return answer(request, {"enabled": False, "enable_tls": False})


@router.post("/notifications/email", status_code=404)
@router.post("/notifications/email/toggle", status_code=404, name="toggle_mails")
@router.post("/notifications/email/test", status_code=404, name="send_test_mail")
def change_mail_settings() -> Refusal:
    """Refuse to send mails, with the reason where ServicePulse looks for it."""
    refused = problem(404, _NO_MAIL)
    refused.headers[_NOT_HERE] = _NO_MAIL
    return refused
