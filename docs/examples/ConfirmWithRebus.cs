// Install: Rebus.RabbitMq and RabbitMQ.Client 7
//
// A step of the pipeline that confirms retries. It stands around the handlers, inside Rebus's own retries:
//
//     .Options(options => options.Decorate<IPipeline>(c => new PipelineStepInjector(c.Get<IPipeline>())
//         .OnReceive(new ConfirmRetries(channel), PipelineRelativePosition.Before, typeof(DispatchIncomingMessageStep))))
//
// The channel is one of RabbitMQ.Client: Rebus would add headers of its own. Written from the documentation of
// Rebus 8; not run by the tests of Retrier.

using RabbitMQ.Client;
using Rebus.Messages;
using Rebus.Pipeline;

public class ConfirmRetries(IChannel channel) : IIncomingStep
{
    public async Task Process(IncomingStepContext context, Func<Task> next)
    {
        await next(); // an exception goes on
        var headers = context.Load<TransportMessage>().Headers;
        if (!headers.TryGetValue("ServiceControl.Retry.UniqueMessageId", out var id)) return; // it is no retry
        var said = new Dictionary<string, object?> { ["ServiceControl.Retry.UniqueMessageId"] = id };
        said["ServiceControl.Retry.Successful"] = DateTimeOffset.UtcNow.ToString("o");
        var to = headers["ServiceControl.Retry.AcknowledgementQueue"];
        await channel.BasicPublishAsync("", to, true, new BasicProperties { Headers = said, Persistent = true }, default(ReadOnlyMemory<byte>));
    }
}
