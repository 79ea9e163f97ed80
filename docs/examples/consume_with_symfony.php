<?php // Install: composer require symfony/messenger symfony/amqp-messenger symfony/event-dispatcher psr/container, and ext-amqp
//
// A worker of Symfony Messenger whose middleware confirms retries, without the framework around it. In an
// application the middleware is a service, named under framework.messenger.buses. It makes its two queues.
//
//     php consume_with_symfony.php amqp://guest:guest@127.0.0.1:5672/%2F fail   sends one order, which fails
//     php consume_with_symfony.php amqp://guest:guest@127.0.0.1:5672/%2F        handles orders until Ctrl-C
//
// A third argument names another work queue than `orders`; its failure transport is that name with `.dead`.
// Then the second one is `fail` or anything else. AUTOLOAD names another file than vendor/autoload.php.

require getenv('AUTOLOAD') ?: 'vendor/autoload.php';

use Psr\Container\ContainerInterface;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpReceivedStamp;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransportFactory;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Event\WorkerMessageFailedEvent;
use Symfony\Component\Messenger\EventListener\AddErrorDetailsStampListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageToFailureTransportListener;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Middleware\MiddlewareInterface;
use Symfony\Component\Messenger\Middleware\StackInterface;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Worker;

[, $url, $mode, $queue] = $argv + [2 => '', 3 => 'orders'];
$fails = $mode === 'fail';

class Order
{
    public $number;
}

class ConfirmRetries implements MiddlewareInterface
{
    private $exchange;

    public function __construct(AMQPExchange $exchange)
    {
        $this->exchange = $exchange;
    }

    public function handle(Envelope $envelope, StackInterface $stack): Envelope
    {
        $envelope = $stack->next()->handle($envelope, $stack); // an exception goes on
        $received = $envelope->last(AmqpReceivedStamp::class);
        $id = $received ? $received->getAmqpEnvelope()->getHeader('ServiceControl.Retry.UniqueMessageId') : null;
        if ($id) { // else it is no retry: nothing waits for its outcome
            $to = $received->getAmqpEnvelope()->getHeader('ServiceControl.Retry.AcknowledgementQueue');
            $said = ['ServiceControl.Retry.UniqueMessageId' => $id, 'ServiceControl.Retry.Successful' => gmdate('c')];
            $this->exchange->publish('', $to, AMQP_NOPARAM, ['headers' => $said, 'delivery_mode' => 2]);
            echo "confirmed $id\n";
        }

        return $envelope;
    }
}

class Services implements ContainerInterface
{
    private $services;

    public function __construct(array $services)
    {
        $this->services = $services;
    }

    public function get(string $id)
    {
        return $this->services[$id];
    }

    public function has(string $id): bool
    {
        return isset($this->services[$id]);
    }
}

function transport(string $url, string $queue)
{
    $options = ['queues' => [$queue => []], 'exchange' => ['name' => $queue]];

    return (new AmqpTransportFactory())->createTransport($url, $options, new PhpSerializer());
}

$parts = parse_url($url);
$connection = new AMQPConnection([
    'host' => $parts['host'],
    'port' => $parts['port'] ?? 5672,
    'login' => urldecode($parts['user']),
    'password' => urldecode($parts['pass']),
    'vhost' => urldecode(substr($parts['path'] ?? '/%2F', 1)),
]);
$connection->connect();
$orders = transport($url, $queue);
$failed = transport($url, "$queue.dead");
$orders->setup();
$failed->setup();

$events = new EventDispatcher();
$events->addSubscriber(new AddErrorDetailsStampListener());
$events->addSubscriber(new SendFailedMessageToFailureTransportListener(new Services(['async' => $failed])));
$handle = function (Order $order) use ($fails) {
    if ($fails) {
        throw new RuntimeException('out of stock');
    }
    echo "handled order {$order->number}\n";
};
$bus = new MessageBus([
    new ConfirmRetries(new AMQPExchange(new AMQPChannel($connection))),
    new HandleMessageMiddleware(new HandlersLocator([Order::class => [$handle]])),
]);
$worker = new Worker(['async' => $orders], $bus, $events);
$events->addListener(WorkerMessageFailedEvent::class, function () use ($worker) {
    echo "rejected an order\n";
    $worker->stop();
}, -1000);

if ($fails) {
    $order = new Order();
    $order->number = 42;
    $orders->send(new Envelope($order));
}
$worker->run(['sleep' => 100000]);
