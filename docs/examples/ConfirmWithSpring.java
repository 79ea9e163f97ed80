// Install: org.springframework.amqp:spring-rabbit, with Maven or Gradle
//
// Advice of a listener container that confirms retries, for all methods with @RabbitListener:
//
//     factory.setAdviceChain(RetryInterceptorBuilder.stateless().recoverer(recoverer).build(), new ConfirmWithSpring(template));
//
// It stands last, inside the retries of Spring, so that it sees each run. Written from the documentation of
// Spring AMQP 3; not run by the tests of Retrier.

import java.time.Instant;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageBuilder;
import org.springframework.amqp.rabbit.core.RabbitTemplate;

public class ConfirmWithSpring implements MethodInterceptor {
    static final String ID = "ServiceControl.Retry.UniqueMessageId";
    private final RabbitTemplate template;

    public ConfirmWithSpring(RabbitTemplate template) {
        this.template = template;
    }

    @Override
    public Object invoke(MethodInvocation invocation) throws Throwable {
        Object result = invocation.proceed(); // an exception goes on
        // The arguments are a channel and a message; a batch is a list of them.
        if (invocation.getArguments()[1] instanceof Message message) {
            String id = message.getMessageProperties().getHeader(ID);
            if (id == null) return result; // it is no retry: nothing waits for its outcome
            String to = message.getMessageProperties().getHeader("ServiceControl.Retry.AcknowledgementQueue");
            template.send("", to, MessageBuilder.withBody(new byte[0]).setHeader(ID, id)
                    .setHeader("ServiceControl.Retry.Successful", Instant.now().toString()).build());
        }
        return result;
    }
}
