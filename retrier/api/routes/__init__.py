"""The routes, one module per noun. If two match a path, the more specific one is listed first."""

from retrier.api.routes import (
    archive,
    errors,
    groups,
    imports,
    operations,
    redirects,
    retries,
    service,
    steering,
)

WATCHING = (service.watching,)
"""Routes of every process, whatever its roles."""

WORKING = (
    errors.router,
    retries.router,
    archive.router,
    retries.pending,
    imports.router,
    redirects.router,
    groups.router,
    operations.router,
    steering.router,
    service.router,
)
"""Routes that use the database. Each request needs a place (`take_place`)."""
