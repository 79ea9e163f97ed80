"""What clients of ServiceControl want to know of the settings: queues, retention, login, connections.

The words are ServiceControl's. `mass_transit_connector` is never there: with it, whatever its
value, ServicePulse hides what it shows of NServiceBus.
"""

import json
from collections.abc import Mapping
from datetime import timedelta

from fastapi import Request

from retrier.api.answers import Answer, Routes, answer, present
from retrier.api.parts import ApiParts, Configured, ConfiguredLogin, Parts
from retrier.api.shapes import OnlyId
from retrier.api.shapes import service as shapes
from retrier.domain.access import How, Right
from retrier.domain.times import NO_TIME_SPAN, show_time_span

FOR_EVER = timedelta(days=36_500)
"""What is said of a period without end: the longest that the settings take."""
_NOT_HERE: shapes.Enabled = {"Enabled": False}


def configuration(configured: Configured) -> shapes.Configuration:
    """Show the settings that clients read; `performance_tunning` is spelled as they read it."""
    kept = FOR_EVER if configured.archived_kept is None else configured.archived_kept
    return {
        "host": {
            "instance_name": configured.instance,
            "logging": {"log_path": "", "logging_level": configured.log_level},
        },
        "data_retention": {"error_retention_period": show_time_span(kept)},
        "performance_tunning": {
            "http_default_connection_limit": 0,
            "external_integrations_dispatching_batch_size": 0,
        },
        "persistence_settings": {},
        "transport": _transport(configured),
        "plugins": {"heartbeat_grace_period": NO_TIME_SPAN},
    }


def _transport(configured: Configured) -> shapes.ConfiguredTransport:
    view: shapes.ConfiguredTransport = {
        "transport_type": configured.broker,
        "error_log_queue": configured.log_queue,
        "error_queue": configured.error_queues[0] if configured.error_queues else None,
        "forward_error_messages": configured.log_queue is not None,
    }
    return present(view)


router = Routes(prefix="/api", tags=["configuration"])


@router.get("/configuration")
@router.get("/instance-info", name="get_instance_info")
def get_configuration(request: Request, parts: Parts) -> Answer[shapes.Configuration]:
    """Return the settings that clients read, such as how long archived messages are kept."""
    return answer(request, configuration(parts.configured))


@router.get("/configuration/remotes")
def get_remotes(request: Request) -> Answer[list[OnlyId]]:
    """List the other instances that this one asks: there are none."""
    return answer(request, [])


authentication = Routes(prefix="/api", tags=["configuration"])
"""How to log in, which whoever has not yet asks."""


@authentication.get("/authentication/configuration")
def get_authentication(request: Request) -> Answer[shapes.Authentication]:
    """Say how clients log in: where they get a token of the provider, if there is one."""
    parts: ApiParts = request.app.state.parts
    return answer(request, authentication_of(parts.configured.login))


def authentication_of(login: ConfiguredLogin | None) -> shapes.Authentication:
    """Show where clients log in; `api_scopes` is a text that holds a list, as they read it."""
    if login is None:
        return {
            "enabled": False,
            "role_based_authorization_enabled": False,
            "client_id": "",
            "authority": "",
            "audience": "",
            "api_scopes": "[]",
        }
    return {
        "enabled": True,
        "role_based_authorization_enabled": True,
        "client_id": login.client_id,
        "authority": login.issuer,
        "audience": login.audience,
        "api_scopes": json.dumps(login.scopes),
    }


@router.get("/my/routes")
def get_my_routes(request: Request, parts: Parts) -> Answer[shapes.MyRoutes]:
    """List the routes that the client may call; all there are, where nobody has to log in."""
    access = parts.access
    rights: Mapping[tuple[str, str], Right] = request.app.state.rights
    paths: dict[str, dict[str, object]] = request.app.openapi()["paths"]
    routes: list[shapes.MyRoute] = [
        {"method": method.upper(), "url_template": path}
        for path, methods in paths.items()
        for method in methods
        if access.may(rights[method.upper(), path])
    ]
    roles = [] if access.how is How.OPEN else [str(access.role)]
    return answer(request, {"roles": roles, "routes": routes})


@router.get("/connection")
def get_connection(request: Request, parts: Parts) -> Answer[shapes.Connection]:
    """Return what an endpoint has to be told to send here: the error queue."""
    queues = parts.configured.error_queues
    settings: shapes.ConnectionSettings = {
        "ErrorQueue": queues[0] if queues else "",
        "Heartbeats": _NOT_HERE,
        "CustomChecks": _NOT_HERE,
        "SagaAudit": _NOT_HERE,
        "MessageAudit": _NOT_HERE,
    }
    return answer(request, {"settings": settings, "errors": []})
