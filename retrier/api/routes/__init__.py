"""The routes, one module per noun. If two match a path, the more specific one is listed first."""

from retrier.api.routes import (
    archive,
    archive_operations,
    breakers,
    comments,
    dead_messages,
    errors,
    events,
    groups,
    history,
    imports,
    message_history,
    operation_requests,
    operations,
    policies,
    recovery,
    redirects,
    retries,
    service,
    steering,
    streams,
)

WATCHING = (service.watching,)
"""Routes of every process, whatever its roles."""

FOLLOWING = (events.following,)
"""Routes that do not end: each has a place of its own (`LiveFeed`)."""

WORKING = (
    errors.router,
    dead_messages.router,
    message_history.router,
    retries.router,
    archive.router,
    archive_operations.router,
    retries.pending,
    recovery.router,
    imports.router,
    redirects.router,
    breakers.router,
    groups.router,
    comments.router,
    history.router,
    operation_requests.router,
    operations.router,
    events.router,
    steering.router,
    policies.router,
    streams.router,
    service.router,
)
"""Routes that use the database. Each request needs a place (`take_place`)."""
