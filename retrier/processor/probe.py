"""The copy that nobody asks for: it proves that the staging queue takes what we publish."""

from retrier.crash_points import Reach
from retrier.domain.copies import Stamps, make_probe
from retrier.domain.wire import Outgoing
from retrier.processor.crash_points import CrashPoint
from retrier.processor.lease import Lease
from retrier.processor.surroundings import RetryParameters
from retrier.store.engine.database import Database
from retrier.store.verbs.installing import record_staging_ids
from retrier.transport.seam import Transport


def get_probe_ready(
    db: Database, lease: Lease, transport: Transport, retries: RetryParameters, crash_point: Reach
) -> Outgoing:
    """Return the probe of this session; its staging id, the session's id, is in the database.

    One id for all probes of a session: a broker that breaks each connection must not fill the
    table. Raises LeaseLost, DatabaseUnavailable.
    """
    record_staging_ids(db, lease.fence, [retries.session_id])
    crash_point(CrashPoint.STAGING_ID_RECORDED)
    stamps = Stamps(
        staging_id=retries.session_id,
        installation_id=retries.installation_id,
        own_user=transport.user,
    )
    return make_probe(transport.codec, stamps, retries.staging_queue)
