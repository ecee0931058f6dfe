package chaos;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** What one producer sent and was answered, in the format of docs/control.md. System.nanoTime is the run's clock. */
public final class Journal implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int OK = 0;
    private static final int UNKNOWN = 2;
    private final FileChannel file;
    private int lines;
    private int operations;

    /** given: the answer to the request client. acks: 0, 1, or -1 for all. Of topic's partition 0 alone. */
    public Journal(JsonNode given, int acks, String topic) throws IOException {
        Path path = Path.of(given.get("journal").asText());
        file = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        write("J", "java");
        write("P", given.get("process").asInt(), "java", acks, System.nanoTime(), null, "kafka-clients", "producer");
        write("D", 0, topic, 0);
    }

    /** The same producer; what it sends is written here before it is sent. */
    @SuppressWarnings("unchecked")
    public Producer<String, String> recorded(Producer<String, String> own) {
        Class<?>[] kinds = {Producer.class};
        return (Producer<String, String>) Proxy.newProxyInstance(getClass().getClassLoader(), kinds, (it, method, given) -> {
            if (method.getName().equals("send")) {
                ProducerRecord<String, String> asked = (ProducerRecord<String, String>) given[0];
                Callback theirs = given.length > 1 ? (Callback) given[1] : (metadata, error) -> { };
                int operation = invoke(asked.value());
                return own.send(asked, (metadata, error) -> {
                    answered(operation, metadata, error);
                    theirs.onCompletion(metadata, error);
                });
            }
            try {
                return method.invoke(own, given);
            } catch (InvocationTargetException thrown) {
                throw thrown.getCause();
            }
        });
    }

    private synchronized int invoke(String value) {
        operations++;
        write("I", operations, "send", System.nanoTime(), List.of(0), List.of(-1), List.of(value));
        return operations;
    }

    private synchronized void answered(int operation, RecordMetadata metadata, Exception error) {
        boolean told = error == null && metadata.hasOffset();
        List<Long> offset = Collections.singletonList(told ? metadata.offset() : null);
        List<String> why = Collections.singletonList(error == null ? null : error.getClass().getSimpleName());
        long now = System.nanoTime();
        write("S", operation, now, List.of(told ? OK : UNKNOWN), offset, why, Collections.singletonList(null), List.of(now));
    }

    private synchronized void write(Object... line) {
        try {
            file.write(ByteBuffer.wrap((JSON.writeValueAsString(Arrays.asList(line)) + "\n").getBytes(StandardCharsets.UTF_8)));
            lines++;
        } catch (JsonProcessingException unfit) {
            throw new IllegalArgumentException(unfit);
        } catch (IOException full) {
            throw new UncheckedIOException(full);
        }
    }

    @Override
    public synchronized void close() throws IOException {
        if (file.isOpen()) {
            write("F", lines);
            file.close();
        }
    }
}
