package peers;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.state.KeyValueStore;

/** Counts by key in a RocksDB store with its changelog, or adds a field to each event; one thread unless told. */
public final class KafkaStreamsPeer {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  /** The event as a class of its own; `seen` is the field that pass-through adds. */
  public static final class Event {
    public long id;
    public String user;
    public String page;
    public double amount;
    public long at;
    public String referrer;
    public Boolean seen;
  }

  public static void main(String[] arguments) throws InterruptedException {
    Run run = Run.of(arguments);
    StreamsBuilder topology = new StreamsBuilder();
    if (run.is("typed", "yes")) {
      Serde<Event> events = json(MAPPER.readerFor(Event.class));
      build(topology, run, events, KafkaStreamsPeer::seen, event -> event.page);
    } else {
      Serde<Map<String, Object>> maps = json(MAPPER.readerFor(new TypeReference<Map<String, Object>>() {}));
      build(topology, run, maps, KafkaStreamsPeer::seen, event -> (String) event.get("page"));
    }
    KafkaStreams streams = new KafkaStreams(topology.build(), settings(run));
    streams.setUncaughtExceptionHandler(
        failure -> {
          failure.printStackTrace();
          Runtime.getRuntime().halt(1);
          return null;
        });
    streams.start();
    run.await();
    streams.close(Duration.ofSeconds(30));
    run.committed();
    System.exit(0);
  }

  private static <V> void build(
      StreamsBuilder topology, Run run, Serde<V> values, UnaryOperator<V> change, Function<V, String> page) {
    var events = topology.stream(run.get("input"), Consumed.with(Serdes.String(), values));
    if (run.is("workload", "pass-through")) {
      events
          .mapValues(change::apply)
          .peek((key, value) -> Run.processed())
          .to(run.get("output"), Produced.with(Serdes.String(), values));
      return;
    }
    if (run.is("workload", "repartitioned-count")) {
      events =
          events
              .peek((key, value) -> Run.begin())
              .selectKey((key, value) -> page.apply(value))
              .repartition(Repartitioned.with(Serdes.String(), values));
    }
    events
        .peek((key, value) -> Run.processed())
        .groupByKey()
        .count(
            Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long()));
  }

  private static Map<String, Object> seen(Map<String, Object> event) {
    event.put("seen", true);
    return event;
  }

  private static Event seen(Event event) {
    event.seen = true;
    return event;
  }

  private static <V> Serde<V> json(ObjectReader reader) {
    return Serdes.serdeFrom(
        (topic, value) -> {
          try {
            return value == null ? null : MAPPER.writeValueAsBytes(value);
          } catch (IOException failure) {
            throw new UncheckedIOException(failure);
          }
        },
        (topic, bytes) -> {
          try {
            return bytes == null ? null : reader.readValue(bytes);
          } catch (IOException failure) {
            throw new UncheckedIOException(failure);
          }
        });
  }

  static Properties settings(Run run) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, run.get("id"));
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, run.get("bootstrap"));
    settings.put(StreamsConfig.STATE_DIR_CONFIG, run.get("folder"));
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, run.number("threads", 1));
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, run.get("commit-ms"));
    settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
    if (run.is("linger", "none")) {
      settings.put(StreamsConfig.producerPrefix("linger.ms"), 0);
    }
    if (run.is("guarantee", "exactly-once")) {
      settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    }
    return settings;
  }

  private KafkaStreamsPeer() {}
}
