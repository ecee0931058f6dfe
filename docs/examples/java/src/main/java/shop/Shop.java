package shop;

import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A shop that keeps its orders in Kafka, and tells its customer when one is taken.
 *
 * <p>With acks=1 it has a bug: it does not wait until the in-sync replicas have an order, and a leader that is cut off
 * takes orders with it that customers were promised. With acks=all it has not.
 */
public final class Shop implements AutoCloseable {
    public static final String TOPIC = "orders";
    private static final int PATIENCE_MS = 20_000;
    private final Producer<String, String> producer;

    /** make: how a producer is made, by its settings; a test makes one that is recorded. */
    public Shop(String bootstrap, String acks, Function<Properties, Producer<String, String>> make) {
        Properties settings = new Properties();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(ProducerConfig.ACKS_CONFIG, acks);
        settings.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, acks.equals("all"));
        settings.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 3_000);
        settings.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, PATIENCE_MS);
        settings.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class.getName());
        settings.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class.getName());
        producer = make.apply(settings);
    }

    /** Whether the customer is told that the order is taken; where it is not, he may ask again. */
    public boolean takeOrder(String order) throws InterruptedException {
        try {
            producer.send(new ProducerRecord<>(TOPIC, order)).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
            return true;
        } catch (ExecutionException | TimeoutException refused) {
            return false;
        }
    }

    @Override
    public void close() {
        producer.close();
    }
}
