// Put a failed message on an error queue from Node (npm install amqplib).
//
//     node publish_failed.mjs amqp://guest:guest@127.0.0.1:5672/%2F

import { randomUUID } from "node:crypto";
import amqp from "amqplib";

const connection = await amqp.connect(process.argv[2]);
const channel = await connection.createConfirmChannel();
const error = new Error("the stock service did not answer");

channel.sendToQueue("error", Buffer.from('{"order": 42}'), {
  messageId: randomUUID(),
  contentType: "application/json",
  persistent: true,
  headers: {
    "Retrier.FailedQueue": "orders",
    "Retrier.TimeOfFailure": new Date().toISOString(),
    "Retrier.Exception.Type": error.name,
    "Retrier.Exception.Message": error.message,
    "Retrier.Exception.StackTrace": error.stack,
    "Retrier.MessageType": "PlaceOrder",
    "Retrier.Endpoint": "shop",
  },
});
await channel.waitForConfirms();
await connection.close();
console.log("one failed message is on the queue error");
