"""Amazon SQS as a transport, over botocore: no envelope, so that messages of any program are read."""

from retrier.transport.sqs.transport import SqsTransport, make_transport

__all__ = ["SqsTransport", "make_transport"]
