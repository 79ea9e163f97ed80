<?php // Install: composer require vladimir-yuldashev/laravel-queue-rabbitmq
//
// A middleware of jobs that confirms retries. A job names it:
//
//     public function middleware(): array { return [new ConfirmRetries()]; }
//
// Written from the documentation of Laravel 11; not run by the tests of Retrier.

namespace App\Jobs\Middleware;

use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

class ConfirmRetries
{
    public function handle(object $job, callable $next): void
    {
        $next($job); // an exception goes on
        $message = $job->job->getRabbitMQMessage();
        $headers = $message->has('application_headers') ? $message->get('application_headers')->getNativeData() : [];
        $id = $headers['ServiceControl.Retry.UniqueMessageId'] ?? null;
        if ($id === null || $job->job->isReleased() || $job->job->hasFailed()) {
            return; // it is no retry, or it is not done
        }
        $said = ['ServiceControl.Retry.UniqueMessageId' => $id, 'ServiceControl.Retry.Successful' => gmdate('c')];
        $sent = ['application_headers' => new AMQPTable($said), 'delivery_mode' => 2];
        $message->getChannel()->basic_publish(new AMQPMessage('', $sent), '', $headers['ServiceControl.Retry.AcknowledgementQueue']);
    }
}
