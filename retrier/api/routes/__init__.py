"""The routes, one module per noun; where two match, the more telling one is listed first."""

from retrier.api.routes import (
    archive,
    batches,
    bodies,
    errors,
    event_log,
    groups,
    health,
    ledger,
    metrics,
    operations,
    pending_retries,
    redirects,
    retries,
    root,
)

WATCHING = (health.router, metrics.router)
"""What every process answers, whatever its roles."""

WORKING = (
    root.router,
    errors.router,
    retries.router,
    archive.router,
    pending_retries.router,
    redirects.router,
    groups.router,
    bodies.router,
    operations.router,
    batches.router,
    event_log.router,
    ledger.router,
)
"""What asks the database, in so many places."""
