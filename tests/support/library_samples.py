"""Failed messages as libraries leave them, made by hand from what their sources and docs say."""

import json
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime

from retrier.domain.failed_message import FailureDetails
from retrier.domain.wire import Properties
from tests.support.php_bodies import BUS, each, envelope, failed_with, private, sent

STAMPS = "X-Message-Stamp-Symfony\\Component\\Messenger\\Stamp\\"
NET_TRACE = "   at Shop.Packing.Pack(Order order) in /src/Packing.cs:line 12"
JAVA_TRACE = (
    "org.springframework.amqp.ListenerExecutionFailedException: Listener threw exception\n"
    "\tat org.example.Outer.call(Outer.java:20)\n"
    "Caused by: java.lang.IllegalStateException: no stock left\n"
    "\tat shop.Packing.pack(Packing.java:12)\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A failed message, the error queue that it lies on, and what is to be read of it."""

    name: str
    dialect: str
    found_on: str
    details: FailureDetails
    headers: dict[str, object]
    fields: dict[str, str | int] = field(default_factory=dict)
    body: bytes = b"{}"
    message_id: str | None = None

    @property
    def properties(self) -> Properties:
        """Headers and properties as they are read."""
        return Properties(headers=self.headers, fields=self.fields)


def rejected(queue: str, **changes: object) -> list[dict[str, object]]:
    """Return the header x-death of a rejection."""
    return [{"queue": queue, "reason": "rejected", "count": 1} | changes]


def easynetq(message: str = '{"order":7}', **changes: object) -> bytes:
    """Return an error envelope of EasyNetQ."""
    envelope: dict[str, object] = {
        "RoutingKey": "",
        "Exchange": "Shop.OrderPlaced, Shop",
        "Queue": "Shop.OrderPlaced, Shop_packing",
        "Exception": f"System.InvalidOperationException: no stock left\n{NET_TRACE}",
        "Message": message,
        "DateTime": "2026-05-04T12:00:00.1234567Z",
        "BasicProperties": {
            "ContentType": None,
            "Headers": {"tenant": "north", "priority-class": 3, "tags": ["a"], "urgent": True},
            "DeliveryMode": 2,
            "Priority": 0,
            "PriorityPresent": False,
            "CorrelationId": "c-7",
            "Type": "Shop.OrderPlaced, Shop",
            "TypePresent": True,
        },
    }
    return json.dumps(envelope | changes).encode()


CAF_TEXT = (
    "class java.lang.IllegalStateException no stock left shop.Packing.pack(Packing.java:12)"
    " shop.Worker.doWork(Worker.java:40)"
)


def caf(**changes: object) -> bytes:
    """Return a task of CAF's worker framework that failed."""
    task: dict[str, object] = {
        "version": 3,
        "taskId": "t-7",
        "taskClassifier": "Pack",
        "taskApiVersion": 1,
        "taskData": "",
        "taskStatus": "RESULT_EXCEPTION",
        "context": {},
        "to": "worker-out",
        "sourceInfo": {"name": "PackWorker", "version": "1.0"},
    }
    return json.dumps(task | changes).encode()


def lambda_envelope(payload: object = None) -> bytes:
    """Return what Lambda sends to the destination of calls that it gave up."""
    called_with = {"order": 7, "buyer": "Zo\u00eb"} if payload is None else payload
    envelope = {
        "version": "1.0",
        "timestamp": "2026-05-04T12:00:00.000Z",
        "requestContext": {
            "requestId": "r-7",
            "functionArn": "arn:aws:lambda:eu-west-1:123456789012:function:pack:$LATEST",
            "condition": "RetriesExhausted",
            "approximateInvokeCount": 3,
        },
        "requestPayload": called_with,
        "responseContext": {"statusCode": 200, "functionError": "Unhandled"},
        "responsePayload": {
            "errorMessage": "no stock left",
            "errorType": "ValueError",
            "stackTrace": ['  File "/var/task/pack.py", line 3, in handle\n'],
        },
    }
    return json.dumps(envelope).encode()


ORDER = private("App\\OrderPlaced", id=7, buyer="Zo\u00eb 'x' \\ \"y\"")
PHP_SENT = sent(envelope(ORDER, (BUS, each(private(BUS, busName="default")))))
"""What the sender sent."""
PHP_FAILED = sent(envelope(ORDER, (BUS, each(private(BUS, busName="default"))), *failed_with()))

SAMPLES = [
    Sample(
        name="masstransit fault",
        dialect="masstransit",
        found_on="packing_error",
        headers={
            "MT-Reason": "fault",
            "MT-Fault-InputAddress": "rabbitmq://localhost:5672/shop%2Feu/pack%2Fing?durable=true",
            "MT-Fault-ExceptionType": "System.InvalidOperationException",
            "MT-Fault-Message": "no stock left",
            "MT-Fault-StackTrace": NET_TRACE,
            "MT-Fault-Timestamp": "2026-05-04T12:00:00.1234567Z",
            "MT-Fault-RetryCount": 2,
            "MT-Fault-ConsumerType": "Shop.PackConsumer",
            "MT-Host-MachineName": "node-1",
            "MT-Host-ProcessId": "17",
            "x-death": [{"queue": "packing.wait", "reason": "expired", "count": 4}],
        },
        body=json.dumps(
            {
                "messageId": "m-7",
                "messageType": ["urn:message:Shop:OrderPlaced", "urn:message:Shop:Event"],
                "sentTime": "2026-05-04T11:59:00Z",
            }
        ).encode(),
        message_id="m-7",
        details=FailureDetails(
            queue="pack/ing",
            destination="pack/ing",
            endpoint="pack/ing",
            message_type="Shop:OrderPlaced",
            exception_type="System.InvalidOperationException",
            exception_message="no stock left",
            stack_trace=NET_TRACE,
            time_of_failure=datetime(2026, 5, 4, 12, 0, 0, 123456, UTC),
            time_sent=datetime(2026, 5, 4, 11, 59, tzinfo=UTC),
            attempts_reported=3,
            id_in_body="m-7",
            host="node-1",
            process="17",
            node="Shop.PackConsumer",
        ),
    ),
    Sample(
        name="masstransit skipped",
        dialect="masstransit",
        found_on="packing_skipped",
        headers={"MT-Reason": "dead-letter"},
        fields={"message_id": "m-8"},
        body=b"not json",
        message_id="m-8",
        details=FailureDetails(
            queue="packing",
            destination="packing",
            exception_message="no consumer took the message",
            failure_reason="dead-letter",
            attempts_reported=1,
        ),
    ),
    Sample(
        name="spring cloud stream",
        dialect="spring",
        found_on="orders.packing.dlq",
        headers={
            "x-exception-message": "no stock left",
            "x-exception-stacktrace": JAVA_TRACE,
            "x-original-exchange": "orders",
            "x-original-routingKey": "orders.placed",
            "retry-count": 3,
            "__TypeId__": "shop.OrderPlaced",
        },
        details=FailureDetails(
            queue="orders.packing",
            destination="orders.packing",
            message_type="shop.OrderPlaced",
            exception_type="java.lang.IllegalStateException",
            exception_message="no stock left",
            stack_trace=JAVA_TRACE,
            attempts_reported=3,
        ),
    ),
    Sample(
        name="spring amqp without a queue",
        dialect="spring",
        found_on="parked",
        headers={
            "x-exception-message": "no stock left",
            "x-exception-stacktrace": None,
            "x-original-exchange": "orders",
            "x-original-routingKey": "orders.placed",
            "x-death": [{"queue": "orders.wait", "reason": "expired", "count": 3}],
        },
        details=FailureDetails(queue="", destination="", exception_message="no stock left"),
    ),
    Sample(
        name="symfony json",
        dialect="symfony",
        found_on="failed",
        headers={
            "type": "App\\OrderPlaced",
            STAMPS + "SentToFailureTransportStamp": '[{"originalReceiverName":"async"}]',
            STAMPS + "ErrorDetailsStamp": json.dumps(
                [
                    {
                        "exceptionClass": "RuntimeException",
                        "exceptionCode": 0,
                        "exceptionMessage": "no stock left",
                        "flattenException": {"traceAsString": "#0 Packing.php(12): pack()"},
                    }
                ]
            ),
            STAMPS + "RedeliveryStamp": json.dumps(
                [
                    {"retryCount": 2, "redeliveredAt": "2026-05-04T11:00:00+00:00"},
                    {"retryCount": 0, "redeliveredAt": "2026-05-04T12:00:00+00:00"},
                ]
            ),
            "x-death": [{"queue": "delay_app_orders_500_retry", "reason": "expired", "count": 2}],
        },
        details=FailureDetails(
            queue="",
            destination="",
            endpoint="async",
            message_type="App\\OrderPlaced",
            exception_type="RuntimeException",
            exception_message="no stock left",
            stack_trace="#0 Packing.php(12): pack()",
            time_of_failure=datetime(2026, 5, 4, 12, tzinfo=UTC),
            attempts_reported=3,
        ),
    ),
    Sample(
        name="symfony php",
        dialect="symfony",
        found_on="failed",
        headers={},
        fields={"content_type": "text/plain"},
        body=PHP_FAILED,
        details=FailureDetails(
            queue="",
            destination="",
            endpoint="async",
            message_type="App\\OrderPlaced",
            exception_type="RuntimeException",
            exception_message="no stock left",
            attempts_reported=3,
        ),
    ),
    Sample(
        name="rebus aggregate",
        dialect="rebus",
        found_on="error",
        headers={
            "rbs2-source-queue": "packing",
            "rbs2-error-details": "5 unhandled exceptions\nSystem.AggregateException: 5 unhandled"
            f" exceptions\n ---> Shop.StockException: no stock left\n{NET_TRACE}",
            "rbs2-msg-id": "m-7",
            "rbs2-msg-type": "Shop.Batch`1[[Shop.Order, Shop]], Shop.Contracts",
            "rbs2-senttime": "2026-05-04T11:59:00.0000000+02:00",
        },
        message_id="m-7",
        details=FailureDetails(
            queue="packing",
            destination="packing",
            endpoint="packing",
            message_type="Shop.Batch`1[[Shop.Order, Shop]]",
            exception_type="Shop.StockException",
            exception_message="5 unhandled exceptions",
            stack_trace="5 unhandled exceptions\nSystem.AggregateException: 5 unhandled"
            f" exceptions\n ---> Shop.StockException: no stock left\n{NET_TRACE}",
            time_sent=datetime(2026, 5, 4, 9, 59, tzinfo=UTC),
            attempts_reported=5,
        ),
    ),
    Sample(
        name="rebus delivery count",
        dialect="rebus",
        found_on="error",
        headers={
            "rbs2-source-queue": "packing",
            "rbs2-error-details": "Received message with empty or absent id",
            "rbs2-delivery-count": "6",
        },
        fields={"message_id": "a-1"},
        message_id="a-1",
        details=FailureDetails(
            queue="packing",
            destination="packing",
            endpoint="packing",
            exception_message="Received message with empty or absent id",
            stack_trace="Received message with empty or absent id",
            attempts_reported=6,
        ),
    ),
    Sample(
        name="watermill",
        dialect="watermill",
        found_on="poison",
        headers={
            "reason_poisoned": "cannot pack: no stock left",
            "topic_poisoned": "orders",
            "handler_poisoned": "pack_orders",
            "subscriber_poisoned": "amqp.Subscriber",
            "_watermill_message_uuid": "u-7",
        },
        message_id="u-7",
        details=FailureDetails(
            queue="orders",
            destination="orders",
            endpoint="pack_orders",
            exception_type="cannot pack",
            exception_message="cannot pack: no stock left",
            node="amqp.Subscriber",
        ),
    ),
    Sample(
        name="watermill without a colon",
        dialect="watermill",
        found_on="poison",
        headers={"reason_poisoned": "no stock left", "topic_poisoned": "orders"},
        fields={"message_id": "u-8"},
        message_id="u-8",
        details=FailureDetails(
            queue="orders", destination="orders", exception_message="no stock left"
        ),
    ),
    Sample(
        name="easynetq",
        dialect="easynetq",
        found_on="EasyNetQ_Default_Error_Queue",
        headers={},
        fields={"type": "EasyNetQ.SystemMessages.Error, EasyNetQ", "delivery_mode": 2},
        body=easynetq(),
        details=FailureDetails(
            queue="Shop.OrderPlaced, Shop_packing",
            destination="Shop.OrderPlaced, Shop_packing",
            message_type="Shop.OrderPlaced, Shop",
            exception_type="System.InvalidOperationException",
            exception_message="no stock left",
            stack_trace=f"System.InvalidOperationException: no stock left\n{NET_TRACE}",
            time_of_failure=datetime(2026, 5, 4, 12, 0, 0, 123456, UTC),
        ),
    ),
    Sample(
        name="easynetq of an older version",
        dialect="easynetq",
        found_on="EasyNetQ_Default_Error_Queue",
        headers={},
        fields={"type": "EasyNetQ.SystemMessages.Error:EasyNetQ"},
        body=easynetq(Queue=None, Exception="boom", BasicProperties=None),
        details=FailureDetails(
            queue="",
            destination="",
            exception_message="boom",
            stack_trace="boom",
            time_of_failure=datetime(2026, 5, 4, 12, 0, 0, 123456, UTC),
        ),
    ),
    Sample(
        name="caf exception",
        dialect="caf",
        found_on="worker-out",
        headers={"x-caf-worker-retry": "2"},
        body=caf(taskData=b64encode(json.dumps(CAF_TEXT).encode()).decode()),
        message_id="t-7",
        details=FailureDetails(
            queue="",
            destination="",
            endpoint="PackWorker",
            message_type="Pack",
            exception_type="java.lang.IllegalStateException",
            exception_message="no stock left",
            stack_trace=CAF_TEXT,
            failure_reason="RESULT_EXCEPTION",
            attempts_reported=3,
            id_in_body="t-7",
        ),
    ),
    Sample(
        name="caf invalid",
        dialect="caf",
        found_on="worker-invalid",
        headers={},
        fields={"message_id": "m-7"},
        body=caf(taskStatus="INVALID_TASK", taskData="bm90IGEgdGFzaw==", sourceInfo=None),
        message_id="m-7",
        details=FailureDetails(
            queue="",
            destination="",
            message_type="Pack",
            exception_message="not a task",
            failure_reason="invalid_message",
        ),
    ),
    Sample(
        name="laravel",
        dialect="laravel",
        found_on="orders.failed",
        headers={
            "laravel": {"attempts": 2},
            "x-death": [
                {"queue": "orders.delay.5000", "reason": "expired", "count": 2},
                *rejected("orders"),
            ],
        },
        fields={"correlation_id": "j-7"},
        body=b'{"uuid":"u-7","displayName":"App\\\\Jobs\\\\Pack","data":{"commandName":"x"}}',
        message_id="j-7",
        details=FailureDetails(
            queue="orders",
            destination="orders",
            message_type="App\\Jobs\\Pack",
            exception_message="rejected by a consumer on orders",
            failure_reason="rejected",
            attempts_reported=3,
        ),
    ),
    Sample(
        name="laravel that only waited",
        dialect="laravel",
        found_on="dead",
        headers={
            "laravel": {"attempts": 1},
            "x-death": [{"queue": "orders.delay.5000", "reason": "expired", "count": 1}],
        },
        body=b'{"uuid":"u-8"}',
        message_id="u-8",
        details=FailureDetails(
            queue="",
            destination="",
            exception_message="message expired on orders.delay.5000",
            failure_reason="expired",
            attempts_reported=2,
            id_in_body="u-8",
        ),
    ),
    Sample(
        name="nestjs request",
        dialect="nestjs",
        found_on="dead",
        headers={"x-death": rejected("orders")},
        fields={"correlation_id": "c-7", "reply_to": "amq.rabbitmq.reply-to"},
        body=b'{"pattern":"pack","data":{"order":7},"id":"r-7"}',
        message_id="r-7",
        details=FailureDetails(
            queue="orders",
            destination="orders",
            message_type="pack",
            exception_message="rejected by a consumer on orders",
            failure_reason="rejected",
            attempts_reported=1,
            id_in_body="r-7",
        ),
    ),
    Sample(
        name="nestjs event with a pattern that is an object",
        dialect="nestjs",
        found_on="dead",
        headers={"x-death": rejected("orders")},
        body=b'{"pattern":{"cmd":"pack","area":"eu"},"data":{}}',
        details=FailureDetails(
            queue="orders",
            destination="orders",
            message_type='{"area":"eu","cmd":"pack"}',
            exception_message="rejected by a consumer on orders",
            failure_reason="rejected",
            attempts_reported=1,
        ),
    ),
    Sample(
        name="taskiq over a delivery limit",
        dialect="taskiq",
        found_on="tasks.dead",
        headers={
            "task_id": "t-7",
            "task_name": "shop:pack",
            "_retries": "2",
            "x-death": rejected("tasks", reason="delivery_limit"),
        },
        fields={"message_id": "another"},
        message_id="t-7",
        details=FailureDetails(
            queue="tasks",
            destination="tasks",
            message_type="shop:pack",
            exception_message="delivery limit reached on tasks",
            failure_reason="delivery_limit",
            attempts_reported=3,
        ),
    ),
    Sample(
        name="taskiq that only waited",
        dialect="taskiq",
        found_on="tasks.dead",
        headers={
            "task_id": "t-8",
            "task_name": "shop:pack",
            "x-death": [{"queue": "tasks.delay", "reason": "expired", "count": 1}],
        },
        message_id="t-8",
        details=FailureDetails(
            queue="",
            destination="",
            message_type="shop:pack",
            exception_message="message expired on tasks.delay",
            failure_reason="expired",
            attempts_reported=1,
        ),
    ),
    Sample(
        name="faststream",
        dialect="faststream",
        found_on="dead",
        headers={"x-death": rejected("orders")},
        fields={
            "app_id": "faststream-0.7.8",
            "message_id": "f-7",
            "correlation_id": "c-7",
            "timestamp": 1777896000,
        },
        message_id="f-7",
        details=FailureDetails(
            queue="orders",
            destination="orders",
            exception_message="rejected by a consumer on orders",
            failure_reason="rejected",
            time_sent=datetime(2026, 5, 4, 12, tzinfo=UTC),
            attempts_reported=1,
        ),
    ),
    Sample(
        name="faststream over a delivery limit",
        dialect="faststream",
        found_on="dead",
        headers={"x-death": rejected("orders", reason="delivery_limit", count=2)},
        fields={"app_id": "faststream-0.7.8", "message_id": "f-8"},
        message_id="f-8",
        details=FailureDetails(
            queue="orders",
            destination="orders",
            exception_message="delivery limit reached on orders, 2 times",
            failure_reason="delivery_limit",
            attempts_reported=2,
        ),
    ),
    Sample(
        name="sqs received too often",
        dialect="sqs",
        found_on="orders-dead",
        headers={
            "tenant": "north",
            "SQS.ApproximateReceiveCount": "4",
            "SQS.ApproximateFirstReceiveTimestamp": "1777896060000",
            "SQS.SentTimestamp": "1777896000000",
            "SQS.DeadLetterQueueSourceArn": "arn:aws:sqs:eu-west-1:123456789012:orders",
            "SQS.SourceQueue": "orders",
            "SQS.MessageId": "s-7",
        },
        fields={"message_id": "s-7"},
        message_id="s-7",
        details=FailureDetails(
            queue="orders",
            destination="orders",
            exception_message="received too often on orders, 3 times",
            failure_reason="delivery_limit",
            time_of_failure=datetime(2026, 5, 4, 12, 1, tzinfo=UTC),
            time_sent=datetime(2026, 5, 4, 12, tzinfo=UTC),
            attempts_reported=3,
        ),
    ),
    Sample(
        name="sqs with an envelope of lambda",
        dialect="sqs",
        found_on="calls-failed",
        headers={
            "SQS.ApproximateReceiveCount": "1",
            "SQS.ApproximateFirstReceiveTimestamp": "1777896060000",
            "SQS.SentTimestamp": "1777896000000",
            "SQS.MessageId": "s-8",
        },
        fields={"message_id": "s-8"},
        message_id="s-8",
        body=lambda_envelope(),
        details=FailureDetails(
            queue="",
            destination="",
            endpoint="pack",
            exception_type="ValueError",
            exception_message="no stock left",
            stack_trace='  File "/var/task/pack.py", line 3, in handle',
            failure_reason="RetriesExhausted",
            time_of_failure=datetime(2026, 5, 4, 12, tzinfo=UTC),
            time_sent=datetime(2026, 5, 4, 12, tzinfo=UTC),
            attempts_reported=3,
        ),
    ),
]
