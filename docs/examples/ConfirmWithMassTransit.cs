// Install: MassTransit.RabbitMQ and RabbitMQ.Client 7
//
// A consume filter that confirms retries. It is added for all consumers of an endpoint with
//
//     endpoint.UseConsumeFilter(typeof(ConfirmRetries<>), context);
//
// and takes an IChannel of RabbitMQ.Client from the container: MassTransit would put the confirmation into
// an envelope of its own. Written from the documentation of MassTransit 8; not run by the tests of Retrier.

using MassTransit;
using RabbitMQ.Client;

public class ConfirmRetries<T>(IChannel channel) : IFilter<ConsumeContext<T>> where T : class
{
    public async Task Send(ConsumeContext<T> context, IPipe<ConsumeContext<T>> next)
    {
        await next.Send(context); // an exception goes on
        var headers = context.ReceiveContext.TransportHeaders;
        if (headers.Get<string>("ServiceControl.Retry.UniqueMessageId") is not { } id) return; // it is no retry
        var said = new Dictionary<string, object?> { ["ServiceControl.Retry.UniqueMessageId"] = id };
        said["ServiceControl.Retry.Successful"] = DateTimeOffset.UtcNow.ToString("o");
        var to = headers.Get<string>("ServiceControl.Retry.AcknowledgementQueue")!;
        await channel.BasicPublishAsync("", to, true, new BasicProperties { Headers = said, Persistent = true }, default(ReadOnlyMemory<byte>));
    }

    public void Probe(ProbeContext context) => context.CreateFilterScope("confirmRetries");
}
