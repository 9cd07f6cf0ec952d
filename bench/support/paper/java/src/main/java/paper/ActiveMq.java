package paper;

import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * ActiveMQ's JMS client by OpenWire. Persistent messages, sent without waiting for each (useAsyncSend)
 * within a window of 1 MB; the broker's reply to the last message says that it has all of them.
 * Each message read is acknowledged by the client itself (AUTO_ACKNOWLEDGE). Not with
 * optimizeAcknowledge: with that, this broker sends 200 messages and then waits for ever.
 */
final class ActiveMq implements Client {
    private final ActiveMQConnectionFactory factory;

    ActiveMq(String server) {
        factory = new ActiveMQConnectionFactory("tcp://" + server);
        factory.setUseAsyncSend(true);
        factory.setProducerWindowSize(1 << 20);
        factory.setCopyMessageOnSend(false);
        factory.setWatchTopicAdvisories(false);
        factory.getPrefetchPolicy().setAll(Job.PREFETCH);
    }

    @Override
    public void produce(Job job, Meter meter) throws Exception {
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        try {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createQueue(job.topic()));
            producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            byte[] value = job.value();
            meter.begin();
            for (int i = 0; i < job.count(); i++) {
                BytesMessage message = session.createBytesMessage();
                message.writeBytes(value);
                if (i == job.count() - 1) {
                    connection.setAlwaysSyncSend(true);
                }
                producer.send(message);
                meter.add(job.size());
            }
            meter.end();
        } finally {
            connection.close();
        }
    }

    @Override
    public void consume(Job job, Meter meter) throws Exception {
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        try {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            meter.begin();
            MessageConsumer consumer = session.createConsumer(session.createQueue(job.topic()));
            Message message;
            while ((message = consumer.receive(meter.done() ? Job.SURPLUS_MS : 60_000)) != null) {
                meter.add((int) ((BytesMessage) message).getBodyLength());
            }
            consumer.close();
        } finally {
            connection.close();
        }
    }
}
