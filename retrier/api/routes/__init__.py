"""The routes, one module per noun; where two match, the more telling one is listed first."""

from retrier.api.routes import (
    archive,
    errors,
    groups,
    imports,
    operations,
    redirects,
    retries,
    service,
)

WATCHING = (service.watching,)
"""What every process answers, whatever its roles."""

WORKING = (
    errors.router,
    retries.router,
    archive.router,
    retries.pending,
    imports.router,
    redirects.router,
    groups.router,
    operations.router,
    service.router,
)
"""What asks the database, in so many places."""
