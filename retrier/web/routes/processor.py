"""The processor and the instances."""

from fastapi import APIRouter, Request, Response

from retrier.store.queries.batches import list_batches
from retrier.store.queries.monitoring import count_taken_off, read_ledger
from retrier.store.queries.outgoing import count_outgoing
from retrier.store.queries.policy_sets import list_judging_processes
from retrier.store.queries.processes import list_processes
from retrier.store.queries.processor_work import find_processor
from retrier.web.parts import Parts
from retrier.web.showing import show
from retrier.web.views.ledger import ledger_view
from retrier.web.views.processor import Here, Seen, processor_page

router = APIRouter(prefix="/processor")


@router.get("")
def get_processor(request: Request, parts: Parts) -> Response:
    """Show who is the processor, what it does, and what waits."""
    seen = Seen(
        state=find_processor(parts.db),
        batches=list_batches(parts.db),
        processes=list_judging_processes(parts.db),
        running=list_processes(parts.db),
        outgoing=count_outgoing(parts.db),
        taken_off=count_taken_off(parts.db),
    )
    here = Here(
        session_id=parts.session_id,
        instance=parts.instance,
        health=parts.health(),
        queues=parts.queues(),
    )
    return show(request, "processor.html", processor_page(seen, here), current="/processor")


@router.get("/ledger")
def get_ledger(request: Request, parts: Parts) -> Response:
    """Show the ledger: every stored message is counted for it, so it is asked for apart."""
    view = ledger_view(read_ledger(parts.db))
    return show(request, "ledger.html", view, current="/processor")
