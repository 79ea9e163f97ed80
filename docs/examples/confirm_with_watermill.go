// Install: go get github.com/ThreeDotsLabs/watermill github.com/rabbitmq/amqp091-go
//
// A middleware of watermill's router that confirms retries. It is added behind the poison queue, so that it
// stands inside it, and takes a channel of its own, since watermill's publisher wants a topic:
//
//	router.AddMiddleware(poisonQueue, ConfirmRetries(channel))
//
// Written from the documentation of watermill 1.4; not run by the tests of Retrier.
package main

import (
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

func ConfirmRetries(channel *amqp.Channel) message.HandlerMiddleware {
	return func(handle message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			produced, err := handle(msg)
			if id := msg.Metadata.Get("ServiceControl.Retry.UniqueMessageId"); err == nil && id != "" { // else it is no retry
				now := time.Now().UTC().Format(time.RFC3339Nano)
				said := amqp.Table{"ServiceControl.Retry.UniqueMessageId": id, "ServiceControl.Retry.Successful": now}
				to := msg.Metadata.Get("ServiceControl.Retry.AcknowledgementQueue")
				err = channel.PublishWithContext(msg.Context(), "", to, false, false, amqp.Publishing{Headers: said, DeliveryMode: amqp.Persistent})
			}
			return produced, err
		}
	}
}
