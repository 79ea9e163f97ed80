// Install: npm install amqplib
//
// Put a failed message on an error queue from Node. It makes the queue if there is none.
//
//     node publish_failed.mjs amqp://guest:guest@127.0.0.1:5672/%2F

import { randomUUID } from "node:crypto";
import amqp from "amqplib";

const [url, queue = "error"] = process.argv.slice(2);
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();

const probe = await connection.createChannel();
probe.on("error", () => {}); // the broker closes this channel if there is no such queue
await probe.checkQueue(queue).catch(() => channel.assertQueue(queue, { durable: true }));

const error = new Error("the stock service did not answer");

channel.sendToQueue(queue, Buffer.from('{"order": 42}'), {
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
console.log(`one failed message is on the queue ${queue}`);
