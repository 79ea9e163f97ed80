// Install: npm install @nestjs/core @nestjs/common @nestjs/microservices amqplib amqp-connection-manager rxjs reflect-metadata
//
// A NestJS microservice whose interceptor rejects what failed and confirms retries. It makes its two queues.
// Written without TypeScript, so that it runs as it stands: Controller()(Orders) is @Controller() of a class.
//
//     node consume_with_nestjs.mjs amqp://guest:guest@127.0.0.1:5672/%2F fail   sends one order, rejects it
//     node consume_with_nestjs.mjs amqp://guest:guest@127.0.0.1:5672/%2F        handles orders until Ctrl-C
//
// A third argument names another work queue than `orders`; its dead letters go to that name with `.dead`.
// Then the second one is `fail` or anything else.

import "reflect-metadata";
import amqp from "amqplib";
import * as nest from "@nestjs/common";
import * as core from "@nestjs/core";
import * as microservices from "@nestjs/microservices";
import * as rxjs from "rxjs";

const [url, mode, queue = "orders"] = process.argv.slice(2);
const fails = mode === "fail";

class ConfirmRetries {
  intercept(context, next) {
    const rmq = context.switchToRpc().getContext();
    const channel = rmq.getChannelRef(), message = rmq.getMessage();
    return next.handle().pipe(
      rxjs.defaultIfEmpty(undefined),
      rxjs.concatMap(async (answer) => {
        const headers = message.properties.headers ?? {}, id = headers["ServiceControl.Retry.UniqueMessageId"];
        if (id) { // else it is no retry: nothing waits for its outcome
          const said = { "ServiceControl.Retry.UniqueMessageId": id, "ServiceControl.Retry.Successful": new Date().toISOString() };
          await channel.sendToQueue(headers["ServiceControl.Retry.AcknowledgementQueue"], Buffer.alloc(0), { headers: said, persistent: true });
          console.log(`confirmed ${id}`);
        }
        channel.ack(message); // after the confirmation: after a crash in between, both are done again
        return answer;
      }),
      rxjs.catchError((error) => {
        channel.nack(message, false, false); // not requeued: the broker dead-letters it
        console.log(`rejected ${message.content}: ${error.message}`);
        return fails ? rxjs.from(end()) : rxjs.EMPTY;
      }),
    );
  }
}

class Orders {
  handle(order) {
    if (fails) throw new Error("out of stock");
    console.log(`handled ${JSON.stringify(order)}`);
  }
}
nest.Controller()(Orders);
nest.UseInterceptors(new ConfirmRetries())(Orders);
microservices.EventPattern("order")(Orders.prototype, "handle", Object.getOwnPropertyDescriptor(Orders.prototype, "handle"));
microservices.Payload()(Orders.prototype, "handle", 0);

class Shop {}
nest.Module({ controllers: [Orders] })(Shop);

const queueOptions = { durable: true, arguments: { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": `${queue}.dead` } };
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
await channel.assertQueue(`${queue}.dead`, { durable: true });
const options = { urls: [url], queue, noAck: false, prefetchCount: 10, queueOptions };
const service = await core.NestFactory.createMicroservice(Shop, { transport: microservices.Transport.RMQ, options, logger: ["error"] });
await service.listen();
if (fails) {
  channel.sendToQueue(queue, Buffer.from('{"pattern":"order","data":{"order":42}}'), { persistent: true });
  await channel.waitForConfirms();
}

async function end() {
  setTimeout(() => process.exit(0), 1000); // until it is rejected
}
