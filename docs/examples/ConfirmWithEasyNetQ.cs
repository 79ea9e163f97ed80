// Install: EasyNetQ and RabbitMQ.Client 7
//
// Confirms a retry at the end of a handler, which has to be one of the advanced API to see the headers:
//
//     bus.Advanced.Consume<Order>(queue, async (message, info) =>
//     {
//         await Handle(message.Body!); // an exception goes on: EasyNetQ puts the message on its error queue
//         await Retries.Confirm(channel, message.Properties.Headers);
//     });
//
// The channel is one of RabbitMQ.Client. Written from the documentation of EasyNetQ 8; not run by the tests of Retrier.

using System.Text;
using RabbitMQ.Client;

public static class Retries
{
    public static async Task Confirm(IChannel channel, IDictionary<string, object?>? headers)
    {
        if (Text(headers, "ServiceControl.Retry.UniqueMessageId") is not { } id) return; // it is no retry
        var said = new Dictionary<string, object?> { ["ServiceControl.Retry.UniqueMessageId"] = id };
        said["ServiceControl.Retry.Successful"] = DateTimeOffset.UtcNow.ToString("o");
        var to = Text(headers, "ServiceControl.Retry.AcknowledgementQueue")!;
        await channel.BasicPublishAsync("", to, true, new BasicProperties { Headers = said, Persistent = true }, default(ReadOnlyMemory<byte>));
    }

    static string? Text(IDictionary<string, object?>? headers, string name) =>
        headers?.TryGetValue(name, out var value) != true ? null
        : value is byte[] bytes ? Encoding.UTF8.GetString(bytes) : value as string;
}
