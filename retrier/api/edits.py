"""Edit and retry: not there, and clients are told so, with the headers that an edit may not change."""

from fastapi import Request

from retrier.api.answers import Answer, Refusal, Routes, answer, problem
from retrier.api.shapes.service import EditConfiguration

_LOCKED = (
    "NServiceBus.MessageId",
    "NServiceBus.SagaId",
    "NServiceBus.CorrelationId",
    "NServiceBus.ControlMessage",
    "NServiceBus.OriginatingSagaId",
    "NServiceBus.RelatedTo",
    "NServiceBus.ConversationId",
    "NServiceBus.MessageIntent",
    "NServiceBus.Version",
    "NServiceBus.IsSagaTimeoutMessage",
    "NServiceBus.IsDeferredMessage",
    "NServiceBus.Retries",
    "NServiceBus.Retries.Timestamp",
    "NServiceBus.FLRetries",
    "NServiceBus.ProcessingStarted",
    "NServiceBus.ProcessingEnded",
    "NServiceBus.ExceptionInfo.ExceptionType",
    "NServiceBus.ExceptionInfo.HelpLink",
    "NServiceBus.ExceptionInfo.Message",
    "NServiceBus.ExceptionInfo.Source",
    "NServiceBus.ExceptionInfo.StackTrace",
    "NServiceBus.TimeOfFailure",
    "NServiceBus.FailedQ",
)
"""They say which message it is, how it came here and how it failed."""

_SENSITIVE = (
    "NServiceBus.Header.RouteTo",
    "NServiceBus.DestinationSites",
    "NServiceBus.OriginatingSite",
    "NServiceBus.To",
    "NServiceBus.ReplyToAddress",
    "NServiceBus.ReturnMessage.ErrorCode",
    "NServiceBus.SagaType",
    "NServiceBus.OriginatingSagaType",
    "NServiceBus.TimeSent",
)
"""They decide where the message and its answers go."""

router = Routes(prefix="/api", tags=["edit"])


@router.get("/edit/config")
def get_edit_configuration(request: Request) -> Answer[EditConfiguration]:
    """Say whether messages can be edited: they cannot."""
    shown: EditConfiguration = {
        "enabled": False,
        "locked_headers": _LOCKED,
        "sensitive_headers": _SENSITIVE,
    }
    return answer(request, shown)


@router.post("/edit/{failed_message_id}", status_code=404)
def edit_message(failed_message_id: str) -> Refusal:
    """Refuse to edit a message: 404, as ServiceControl does where editing is off."""
    return problem(404, f"Messages cannot be edited here, nor can {failed_message_id[:100]}.")
