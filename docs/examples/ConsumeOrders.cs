// Install: dotnet add package RabbitMQ.Client (version 7 or later)
//
// A consumer with a dead-letter queue that confirms retries, in C#. It makes its two queues. In a project made by
// `dotnet new console`, in place of Program.cs:
//
//     dotnet run amqp://guest:guest@127.0.0.1:5672/%2F fail   sends one order, rejects it
//     dotnet run amqp://guest:guest@127.0.0.1:5672/%2F        handles orders until Ctrl-C
//
// A third argument names another work queue than `orders`; its dead letters go to that name with `.dead`.
// Then the second one is `fail` or anything else.

using System.Text;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

var fails = args.Length > 1 && args[1] == "fail";
var queue = args.Length > 2 ? args[2] : "orders";
var rejected = new TaskCompletionSource();
var factory = new ConnectionFactory { Uri = new Uri(args[0]) };
await using var connection = await factory.CreateConnectionAsync();
// With tracking, BasicPublishAsync returns when the broker has confirmed the message.
await using var channel = await connection.CreateChannelAsync(new CreateChannelOptions(
    publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true));
await channel.QueueDeclareAsync($"{queue}.dead", durable: true, exclusive: false, autoDelete: false);
await channel.QueueDeclareAsync(queue, durable: true, exclusive: false, autoDelete: false,
    arguments: new Dictionary<string, object?>
    {
        ["x-dead-letter-exchange"] = "",
        ["x-dead-letter-routing-key"] = $"{queue}.dead",
    });
await channel.BasicQosAsync(prefetchSize: 0, prefetchCount: 10, global: false);

void Handle(string order)
{
    if (fails) throw new InvalidOperationException("out of stock");
    Console.WriteLine($"handled {order}");
}

// Headers that are text arrive as bytes.
string? Text(IDictionary<string, object?>? headers, string name) =>
    headers?.TryGetValue(name, out var value) == true && value is byte[] bytes ? Encoding.UTF8.GetString(bytes) : null;

async Task Confirm(IDictionary<string, object?>? headers)
{
    if (Text(headers, "ServiceControl.Retry.UniqueMessageId") is not { } id) return; // it is no retry
    var said = new Dictionary<string, object?> { ["ServiceControl.Retry.UniqueMessageId"] = id };
    said["ServiceControl.Retry.Successful"] = DateTimeOffset.UtcNow.ToString("o");
    var to = Text(headers, "ServiceControl.Retry.AcknowledgementQueue")!;
    await channel.BasicPublishAsync("", to, true, new BasicProperties { Headers = said, Persistent = true }, default(ReadOnlyMemory<byte>));
    Console.WriteLine($"confirmed {id}");
}

var consumer = new AsyncEventingBasicConsumer(channel);
consumer.ReceivedAsync += async (_, delivery) =>
{
    var order = Encoding.UTF8.GetString(delivery.Body.Span);
    try
    {
        Handle(order);
    }
    catch (InvalidOperationException error)
    {
        // Not requeued: the broker dead-letters it.
        await channel.BasicNackAsync(delivery.DeliveryTag, multiple: false, requeue: false);
        Console.WriteLine($"rejected {order}: {error.Message}");
        rejected.TrySetResult();
        return;
    }
    await Confirm(delivery.BasicProperties.Headers); // before the ack: after a crash in between, both are done again
    await channel.BasicAckAsync(delivery.DeliveryTag, multiple: false);
};
await channel.BasicConsumeAsync(queue, autoAck: false, consumer);
if (fails)
{
    var properties = new BasicProperties { MessageId = Guid.NewGuid().ToString(), Persistent = true };
    await channel.BasicPublishAsync("", queue, mandatory: true, properties, "{\"order\": 42}"u8.ToArray());
}
await (fails ? rejected.Task : Task.Delay(Timeout.Infinite));
