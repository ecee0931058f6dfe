// Apache Kafka's own Java client: does the named operations, and says of each in one line how it went.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Client {
    static final int RECORDS = 20;
    static final long FIRST_TIME_MS = 1_700_000_000_000L;
    static String bootstrap;
    static String topic;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        long limitMs = (long) (Double.parseDouble(arguments[2]) * 1000);
        for (int each = 3; each < arguments.length; each++) {
            String operation = arguments[each];
            ExecutorService executor = Executors.newSingleThreadExecutor(Client::daemon);
            long begun = System.nanoTime();
            String outcome;
            try {
                Callable<String> call = () -> perform(operation);
                outcome = "ok\t" + executor.submit(call).get(limitMs, TimeUnit.MILLISECONDS);
            } catch (TimeoutException error) {
                outcome = "hangs\t";
            } catch (ExecutionException error) {
                Throwable cause = error.getCause();
                while (cause instanceof ExecutionException && cause.getCause() != null) cause = cause.getCause();
                outcome = "fails\t" + cause.getClass().getSimpleName() + ": " + cause.getMessage();
            }
            executor.shutdownNow();
            double seconds = (System.nanoTime() - begun) / 1e9;
            System.out.printf("%s\t%.1f\t%s%n", operation, seconds, outcome.replace('\n', ' '));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);  // what hangs must not keep the process
    }

    static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    static String perform(String operation) throws Exception {
        switch (operation) {
            case "topics": return topics();
            case "partitions": return partitions();
            case "alter": return alter();
            case "configuration": return configuration();
            case "elections": return elections();
            case "read": return read(Map.of());
            case "read-named": return read(Map.of("group.id", "nobody"));
            case "time": return time();
            case "group": return group();
            case "transaction": return transaction();
            case "idempotent": return produce(Map.of("enable.idempotence", "true"));
            default:
                int dash = operation.indexOf('-');
                String kind = operation.substring(0, dash), value = operation.substring(dash + 1);
                if (kind.equals("codec")) return produce(Map.of("compression.type", value));
                if (kind.equals("acks")) return produce(Map.of("acks", value, "enable.idempotence", "false"));
                throw new IllegalArgumentException(operation);
        }
    }

    static Properties properties(Map<String, String> more) {
        Properties made = new Properties();
        made.put("bootstrap.servers", bootstrap);
        made.putAll(more);
        return made;
    }

    static Admin admin() {
        return Admin.create(properties(Map.of()));
    }

    static String topics() throws Exception {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 3), new NewTopic(topic + ".gone", 1, (short) 1)))
                .all().get();
            admin.deleteTopics(List.of(topic + ".gone")).all().get();
            for (;;) {
                Set<String> names = admin.listTopics().names().get();
                if (names.contains(topic) && !names.contains(topic + ".gone")) return "created, deleted, listed";
                Thread.sleep(50);
            }
        }
    }

    static String partitions() throws Exception {
        try (Admin admin = admin()) {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            return "increased to 3";
        }
    }

    static String configuration() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin admin = admin()) {
            return admin.describeConfigs(List.of(resource)).all().get().get(resource).entries().size() + " described";
        }
    }

    static String alter() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin admin = admin()) {
            AlterConfigOp set = new AlterConfigOp(new ConfigEntry("retention.ms", "-1"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
            for (;;) {
                String value = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
                if (value.equals("-1")) return "altered";
                Thread.sleep(50);
            }
        }
    }

    static String elections() throws Exception {
        try (Admin admin = admin()) {
            admin.electLeaders(ElectionType.PREFERRED, Set.of(new TopicPartition(topic, 0))).partitions().get();
            return "asked for the preferred leader";
        }
    }

    static String produce(Map<String, String> settings) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties(settings), new ByteArraySerializer(), new ByteArraySerializer())) {
            List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
            for (int number = 0; number < RECORDS; number++) {
                byte[] value = ("value " + number).getBytes();
                sent.add(producer.send(new ProducerRecord<>(topic, 0, FIRST_TIME_MS + number, null, value)));
            }
            for (java.util.concurrent.Future<?> each : sent) each.get();
        }
        return RECORDS + " records";
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, String> more) {
        return new KafkaConsumer<>(properties(more), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static String read(Map<String, String> settings) {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            long count = 0;
            while (count < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.offset() != count++) throw new IllegalStateException("offset " + record.offset());
                }
            }
            return count + " records";
        }
    }

    static String time() {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            return "offset " + consumer.offsetsForTimes(Map.of(partition, FIRST_TIME_MS + 5)).get(partition).offset();
        }
    }

    static String group() {
        try (KafkaConsumer<byte[], byte[]> consumer =
                consumer(Map.of("group.id", topic + "-group", "auto.offset.reset", "earliest"))) {
            consumer.subscribe(List.of(topic));
            for (;;) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(200));
                if (!polled.isEmpty()) return polled.count() + " records";
            }
        }
    }

    static String transaction() {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                properties(Map.of("transactional.id", "somebody")), new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "value".getBytes()));
            producer.commitTransaction();
            return "committed";
        }
    }
}
