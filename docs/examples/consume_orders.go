// Install: go get github.com/rabbitmq/amqp091-go
//
// A consumer with a dead-letter queue that confirms retries, in Go. It makes its two queues.
//
//	go run consume_orders.go amqp://guest:guest@127.0.0.1:5672/%2F fail   sends one order, rejects it
//	go run consume_orders.go amqp://guest:guest@127.0.0.1:5672/%2F        handles orders until Ctrl-C
//
// A third argument names another work queue than `orders`; its dead letters go to that name with `.dead`.
// Then the second one is `fail` or anything else.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func handle(body []byte, fails bool) error {
	if fails {
		return errors.New("out of stock")
	}
	fmt.Printf("handled %s\n", body)
	return nil
}

func confirm(channel *amqp.Channel, headers amqp.Table) {
	if id, ok := headers["ServiceControl.Retry.UniqueMessageId"].(string); ok { // else nothing waits for its outcome
		now := time.Now().UTC().Format(time.RFC3339Nano)
		said := amqp.Table{"ServiceControl.Retry.UniqueMessageId": id, "ServiceControl.Retry.Successful": now}
		queue, _ := headers["ServiceControl.Retry.AcknowledgementQueue"].(string)
		sent := must(channel.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, false, false,
			amqp.Publishing{Headers: said, DeliveryMode: amqp.Persistent}))
		if !sent.Wait() {
			log.Fatal("the broker did not take the confirmation")
		}
		fmt.Printf("confirmed %s\n", id)
	}
}

func main() {
	fails := len(os.Args) > 2 && os.Args[2] == "fail"
	queue := "orders"
	if len(os.Args) > 3 {
		queue = os.Args[3]
	}
	connection := must(amqp.Dial(os.Args[1]))
	defer connection.Close()
	channel := must(connection.Channel())
	must(0, channel.Confirm(false))
	must(channel.QueueDeclare(queue+".dead", true, false, false, false, nil))
	must(channel.QueueDeclare(queue, true, false, false, false, amqp.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue + ".dead"}))
	must(0, channel.Qos(10, 0, false))
	if fails {
		order := amqp.Publishing{MessageId: fmt.Sprint(time.Now().UnixNano()),
			DeliveryMode: amqp.Persistent, Body: []byte(`{"order": 42}`)}
		must(0, channel.PublishWithContext(context.Background(), "", queue, false, false, order))
	}
	for delivery := range must(channel.Consume(queue, "", false, false, false, false, nil)) {
		if err := handle(delivery.Body, fails); err != nil {
			must(0, delivery.Nack(false, false)) // not requeued: the broker dead-letters it
			fmt.Printf("rejected %s: %s\n", delivery.Body, err)
			if fails {
				return
			}
			continue
		}
		// Before the ack: after a crash in between, both are done again.
		confirm(channel, delivery.Headers)
		must(0, delivery.Ack(false))
	}
}
