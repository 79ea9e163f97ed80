"""Which right each route of both faces takes: one table, which nobody else decides beside.

What only reads takes `read`, and what is not listed and does not only read takes the role of an
administrator: a route that is forgotten here is closed, and a test says so.
"""

from collections.abc import Mapping
from types import MappingProxyType

from fastapi import Request

from retrier.domain.access import Right

_READING = frozenset({"GET", "HEAD"})

_OF_API: Mapping[Right, tuple[str, ...]] = {
    Right.READ: (
        "archive.preview_archive_operation",
        "imports.preview_retry_imports",
        "messages.find_message_ids",
        "operations.look_ahead",
        "recovery.preview_retry_recovered",
        "retries.preview_retry_all_pending",
        "retries.preview_resolve_all_pending",
        "streams.preview_release",
    ),
    Right.READ_CONTENT: (
        "groups.get_values_of_field",
        "imports.get_import_body",
        "messages.get_body",
        "messages.get_edited_body",
    ),
    Right.RETRY: (
        "operations.ask",
        "recovery.retry_recovered",
        "retries.retry_all",
        "retries.retry_all_pending",
        "retries.retry_endpoint",
        "retries.retry_group",
        "retries.retry_message",
        "retries.retry_messages",
        "retries.retry_pending_messages",
        "retries.retry_pending_of_queue",
        "retries.retry_queue",
    ),
    Right.ARCHIVE: (
        "archive.archive_group",
        "archive.archive_message",
        "archive.archive_messages",
        "archive.create_archive_operation",
        "archive.unarchive_group",
        "archive.unarchive_messages",
        "archive.unarchive_range",
        "archive.undo_archive_operation",
    ),
    Right.RESOLVE: (
        "retries.resolve_all_pending",
        "retries.resolve_messages",
        "retries.resolve_queue",
    ),
    Right.DECLARE_DEAD: ("archive.declare_message_dead",),
    Right.REVIVE: ("archive.revive_message",),
    Right.RELEASE: ("streams.release",),
    Right.STEER: ("operations.cancel_operation", "operations.change_operation"),
    Right.COMMENT: ("groups.delete_comment", "groups.write_comment"),
    Right.ACKNOWLEDGE: ("groups.acknowledge_group",),
    Right.SAVE_VIEW: ("views.delete_view", "views.put_view"),
    Right.APPROVE: ("approvals.approve_operation", "approvals.refuse_operation"),
    Right.EDIT: ("edits.ask_edit", "edits.edit_message", "edits.get_editable"),
    Right.REDIRECT: (
        "redirects.change_redirect",
        "redirects.create_redirect",
        "redirects.delete_redirect",
    ),
    Right.IMPORT: (
        "imports.delete_import",
        "imports.retry_import",
        "imports.retry_imports",
        "imports.send_import",
    ),
    Right.SET_BREAKER: ("breakers.close_breaker", "breakers.open_breaker"),
    Right.TOKEN: ("tokens.create_token", "tokens.get_tokens", "tokens.revoke_token"),
    Right.RECOVER: ("recovery.begin_recovery", "recovery.end_recovery"),
    Right.SIMULATE: ("imports.try_imports", "policies.simulate"),
    Right.CONFIGURE: (
        "platform.change_mail_settings",
        "platform.delete_custom_check",
        "search.reindex",
    ),
}

_OF_PAGE: Mapping[Right, tuple[str, ...]] = {
    Right.READ: ("page.set_name",),
    Right.READ_CONTENT: (
        "groups.get_values_of_field",
        "imports.get_import_body",
        "message.download_body",
        "message.download_edited_body",
        "message.get_more_bytes",
    ),
    Right.RETRY: (
        "groups.retry",
        "message.retry",
        "message.retry_again",
        "messages.retry",
        "messages.retry_again",
        "pending.retry_again",
        "previews.retry",
    ),
    Right.ARCHIVE: (
        "archives.unarchive",
        "archives.undo",
        "groups.archive",
        "message.answer",
        "messages.act_on_selected",
    ),
    Right.RESOLVE: ("pending.resolve",),
    Right.DECLARE_DEAD: ("message.declare_dead",),
    Right.REVIVE: ("message.revive",),
    Right.RELEASE: ("streams.release",),
    Right.STEER: (
        "operations.cancel",
        "operations.pause",
        "operations.resume",
        "operations.set_rate",
    ),
    Right.APPROVE: ("approvals.approve", "approvals.refuse"),
    Right.COMMENT: ("groups.delete_comment", "groups.write_comment"),
    Right.ACKNOWLEDGE: ("groups.dismiss", "operations.acknowledge"),
    Right.SAVE_VIEW: ("views.delete_view", "views.save_view"),
    Right.EDIT: ("edits.edit", "edits.get_editor"),
    Right.REDIRECT: (
        "redirects.change_redirect",
        "redirects.create_redirect",
        "redirects.delete_redirect",
    ),
    Right.IMPORT: ("imports.do",),
    Right.SET_BREAKER: ("breakers.close_breaker", "breakers.open_breaker"),
    Right.TOKEN: (
        "tokens.ask_revoke",
        "tokens.create_token",
        "tokens.get_tokens",
        "tokens.revoke_token",
    ),
    Right.RECOVER: ("pending.end_recovery",),
    Right.SIMULATE: ("imports.ask_trial", "imports.try_formats", "policies.simulate"),
}

RIGHTS: Mapping[str, Right] = MappingProxyType(
    {
        f"retrier.{face}.{route}": right
        for face, table in (("api", _OF_API), ("web", _OF_PAGE))
        for right, routes in table.items()
        for route in routes
    }
)
"""The right by module and function of a route."""


def route_name(endpoint: object) -> str:
    """Return how the table calls a route: by its function."""
    return f"{getattr(endpoint, '__module__', '')}.{getattr(endpoint, '__name__', '')}"


def act_of(request: Request) -> str:
    """Return what a request asks for, as it is kept if it is refused: the name of its function."""
    return getattr(getattr(request.scope.get("route"), "endpoint", None), "__name__", "unknown")


def right_of(request: Request) -> Right:
    """Return the right that the route of a request takes."""
    route = request.scope.get("route")
    return right_for(getattr(route, "endpoint", None), request.method)


def right_for(endpoint: object, method: str) -> Right:
    """Return the right that a route takes, by its function and a method."""
    known = RIGHTS.get(route_name(endpoint))
    if known is not None:
        return known
    return Right.READ if method in _READING else Right.CONFIGURE
