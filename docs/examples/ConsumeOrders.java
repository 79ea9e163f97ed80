// Install: com.rabbitmq:amqp-client and org.slf4j:slf4j-api, with Maven or Gradle. To have both files in lib/, put this
// file beside a pom.xml that names them as dependencies, then: mvn dependency:copy-dependencies -DoutputDirectory=lib
//
// A consumer with a dead-letter queue that confirms retries, in Java. It makes its two queues.
//
//     java -cp 'lib/*' ConsumeOrders.java amqp://guest:guest@127.0.0.1:5672/%2F fail   sends one order, rejects it
//     java -cp 'lib/*' ConsumeOrders.java amqp://guest:guest@127.0.0.1:5672/%2F        handles orders until Ctrl-C
//
// A third argument names another work queue than `orders`; its dead letters go to that name with `.dead`.
// Then the second one is `fail` or anything else.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.MessageProperties;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;

public class ConsumeOrders {
    static final String ID = "ServiceControl.Retry.UniqueMessageId";
    static final String QUEUE = "ServiceControl.Retry.AcknowledgementQueue";
    static final CountDownLatch done = new CountDownLatch(1);
    static boolean fails;
    static Channel channel;
    static Channel confirming;

    public static void main(String[] args) throws Exception {
        fails = args.length > 1 && args[1].equals("fail");
        String queue = args.length > 2 ? args[2] : "orders";
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(args[0]);
        try (Connection connection = factory.newConnection()) {
            channel = connection.createChannel();
            confirming = connection.createChannel();
            confirming.confirmSelect();
            channel.queueDeclare(queue + ".dead", true, false, false, null);
            channel.queueDeclare(queue, true, false, false, Map.of(
                    "x-dead-letter-exchange", "", "x-dead-letter-routing-key", queue + ".dead"));
            channel.basicQos(10);
            if (fails) {
                AMQP.BasicProperties order = MessageProperties.PERSISTENT_BASIC.builder()
                        .messageId(UUID.randomUUID().toString()).build();
                channel.basicPublish("", queue, order, "{\"order\": 42}".getBytes(StandardCharsets.UTF_8));
            }
            channel.basicConsume(queue, false, new Orders());
            done.await();
        }
    }

    static void handle(String order) {
        if (fails) throw new IllegalStateException("out of stock");
        System.out.println("handled " + order);
    }

    static void confirm(Map<String, Object> headers) throws Exception {
        if (headers == null || headers.get(ID) == null) return; // it is no retry: nothing waits for its outcome
        Map<String, Object> said = Map.of(ID, headers.get(ID), "ServiceControl.Retry.Successful", Instant.now().toString());
        AMQP.BasicProperties properties = MessageProperties.PERSISTENT_BASIC.builder().headers(said).build();
        confirming.basicPublish("", headers.get(QUEUE).toString(), properties, new byte[0]);
        confirming.waitForConfirmsOrDie(10_000);
        System.out.println("confirmed " + headers.get(ID));
    }

    static class Orders extends DefaultConsumer {
        Orders() {
            super(channel);
        }

        @Override
        public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                throws IOException {
            String order = new String(body, StandardCharsets.UTF_8);
            try {
                handle(order);
            } catch (IllegalStateException error) {
                channel.basicNack(envelope.getDeliveryTag(), false, false); // the broker dead-letters it
                System.out.println("rejected " + order + ": " + error.getMessage());
                if (fails) done.countDown();
                return;
            }
            try {
                confirm(properties.getHeaders()); // before the ack: after a crash in between, both are done again
            } catch (Exception error) {
                throw new IOException("the confirmation was not sent", error);
            }
            channel.basicAck(envelope.getDeliveryTag(), false);
        }
    }
}
