package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import chaos.ChaosCluster;
import chaos.Journal;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.junit.jupiter.api.Test;

/** The harness finds the bug of the shop that does not wait for the replicas, and nothing against the one that does. */
class ShopTest {
    private static final String LEADER = "leader(" + Shop.TOPIC + "/0)";

    /** The verdict on orders that were taken while their leader was cut off, and the new leader chosen. */
    private static JsonNode checked(ChaosCluster cluster, String acks, List<String> taken) throws Exception {
        cluster.ask("record", Map.of("name", "shop", "topics", List.of(Map.of("name", Shop.TOPIC))));
        JsonNode given = cluster.ask("client", Map.of("name", "producer"));
        try (Journal journal = new Journal(given, acks.equals("all") ? -1 : Integer.parseInt(acks), Shop.TOPIC);
                Shop shop = new Shop(cluster.bootstrap(), acks, set -> journal.recorded(new KafkaProducer<>(set)))) {
            take(shop, taken, "tea", "milk");
            int old = cluster.leader(Shop.TOPIC);
            try (ChaosCluster.Fault peers = cluster.begin(Map.of("isolate", LEADER, "from", "peers"));
                    ChaosCluster.Fault zombie = cluster.begin(Map.of("isolate", LEADER, "from", "coordination"))) {
                take(shop, taken, "jam", "salt");
                cluster.ask("wait", Map.of("new_leader", old, "topic", Shop.TOPIC));
            }
            take(shop, taken, "rice");
        }
        return cluster.ask("check", Map.of());
    }

    private static void take(Shop shop, List<String> taken, String... orders) throws InterruptedException {
        for (String order : orders) {
            if (shop.takeOrder(order)) {
                taken.add(order);
            }
        }
    }

    @Test
    void theShopThatDoesNotWaitForTheReplicasLosesOrdersThatItHasTaken() throws Exception {
        List<String> taken = new ArrayList<>();
        try (ChaosCluster cluster = new ChaosCluster()) {
            JsonNode lost = checked(cluster, "1", taken).get("findings").get(0);
            assertEquals("lost-write", lost.get("check").asText());
            assertEquals("permitted", lost.get("class").asText()); // its own settings allow it
            lost.get("values").forEach(value -> assertTrue(taken.contains(value.asText())));
        }
    }

    @Test
    void theShopThatWaitsLosesNothing() throws Exception {
        List<String> taken = new ArrayList<>();
        try (ChaosCluster cluster = new ChaosCluster()) {
            JsonNode answer = checked(cluster, "all", taken);
            answer.get("findings").forEach(finding -> assertEquals("observation", finding.get("class").asText()));
            assertEquals("pass", answer.get("verdict").asText());
            assertTrue(taken.contains("rice"));
        }
    }
}
