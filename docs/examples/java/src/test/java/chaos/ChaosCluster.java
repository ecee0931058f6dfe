package chaos;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A cluster of `kafka-chaos cluster --control`, which ends with this process, and one request to it at a time. */
public final class ChaosCluster implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long START_S = 180;
    private final Process process;
    private final JsonNode ready;

    /** KAFKA_CHAOS_COMMAND names the command where it is not on the path. */
    public ChaosCluster() throws IOException, InterruptedException {
        Path folder = Files.createTempDirectory("kc"); // private to its user
        Path told = folder.resolve("ready.json");
        List<String> command = new ArrayList<>(
                List.of(System.getenv().getOrDefault("KAFKA_CHAOS_COMMAND", "kafka-chaos").split(" ")));
        command.addAll(List.of("cluster", "--until-stdin-closes", "--control", folder + "/c/control"));
        command.addAll(List.of("--ready-file", told.toString(), "--runs", folder + "/runs"));
        process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve("output").toFile())
                .start();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_S);
        while (!Files.exists(told)) {
            if (process.waitFor(50, TimeUnit.MILLISECONDS) || System.nanoTime() > deadline) {
                process.destroy();
                throw new IOException("no cluster: " + Files.readString(folder.resolve("output")));
            }
        }
        ready = JSON.readTree(told.toFile());
    }

    public String bootstrap() {
        return ready.get("bootstrap").asText();
    }

    /** Sends {word: value}, and returns the answer. Throws IOException with code and remedy where it is refused. */
    public JsonNode ask(String word, Object value) throws IOException {
        byte[] line = (JSON.writeValueAsString(Map.of(word, value)) + "\n").getBytes(StandardCharsets.UTF_8);
        UnixDomainSocketAddress address = UnixDomainSocketAddress.of(ready.get("control").asText());
        try (SocketChannel channel = SocketChannel.open(address);
                BufferedReader answers = new BufferedReader(Channels.newReader(channel, StandardCharsets.UTF_8))) {
            Channels.newOutputStream(channel).write(line);
            String answer = answers.readLine();
            if (answer == null) {
                throw new IOException("the cluster ended before it answered " + word);
            }
            JsonNode read = JSON.readTree(answer);
            if (!read.get("ok").asBoolean()) {
                throw new IOException(word + ": " + read.get("error"));
            }
            return read;
        }
    }

    /** A fault by role, such as isolate of "leader(orders/0)"; closing it heals it. */
    public Fault begin(Map<String, ?> act) throws IOException {
        List<Integer> numbers = new ArrayList<>();
        ask("act", act).get("faults").forEach(fault -> numbers.add(fault.get("fault").asInt()));
        return () -> ask("heal", numbers);
    }

    public int leader(String topic) throws IOException {
        for (JsonNode partition : ask("state", Map.of("topics", List.of(topic))).get("partitions")) {
            if (partition.get("topic").asText().equals(topic)) {
                return partition.get("leader").asInt();
            }
        }
        return -1;
    }

    @Override
    public void close() throws IOException, InterruptedException {
        process.getOutputStream().close();
        if (!process.waitFor(60, TimeUnit.SECONDS)) {
            process.destroyForcibly();
        }
    }

    /** One that is in force until it is closed. */
    public interface Fault extends AutoCloseable {
        @Override
        void close() throws IOException;
    }
}
