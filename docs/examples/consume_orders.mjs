// Install: npm install amqplib
//
// A consumer with a dead-letter queue that confirms retries, in Node. It makes its two queues.
//
//     node consume_orders.mjs amqp://guest:guest@127.0.0.1:5672/%2F fail   sends one order, rejects it
//     node consume_orders.mjs amqp://guest:guest@127.0.0.1:5672/%2F        handles orders until Ctrl-C
//
// A third argument names another work queue than `orders`; its dead letters go to that name with `.dead`.
// Then the second one is `fail` or anything else.

import { randomUUID } from "node:crypto";
import amqp from "amqplib";

const [url, mode, queue = "orders"] = process.argv.slice(2);
const fails = mode === "fail";
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
await channel.assertQueue(`${queue}.dead`, { durable: true });
await channel.assertQueue(queue, {
  durable: true,
  arguments: { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": `${queue}.dead` },
});
await channel.prefetch(10);

async function handle(message) {
  if (fails) throw new Error("out of stock");
  console.log(`handled ${message.content}`);
}

async function confirm(headers = {}) {
  const id = headers["ServiceControl.Retry.UniqueMessageId"];
  if (!id) return; // it is no retry: nothing waits for its outcome
  const said = { "ServiceControl.Retry.UniqueMessageId": id, "ServiceControl.Retry.Successful": new Date().toISOString() };
  channel.sendToQueue(headers["ServiceControl.Retry.AcknowledgementQueue"], Buffer.alloc(0), { headers: said, persistent: true });
  await channel.waitForConfirms();
  console.log(`confirmed ${id}`);
}

await channel.consume(queue, async (message) => {
  try {
    await handle(message);
  } catch (error) {
    channel.nack(message, false, false); // not requeued: the broker dead-letters it
    console.log(`rejected ${message.content}: ${error.message}`);
    if (fails) await channel.close().then(() => connection.close());
    return;
  }
  await confirm(message.properties.headers); // before the ack: after a crash in between, both are done again
  channel.ack(message);
});

if (fails) {
  channel.sendToQueue(queue, Buffer.from('{"order": 42}'), { messageId: randomUUID(), persistent: true });
}
