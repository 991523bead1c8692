package peers;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Passes bytes on, or reads and writes a value per message, in several stores in turn; one thread. */
public final class KafkaStreamsCurves {
  public static void main(String[] arguments) throws InterruptedException {
    Run run = Run.of(arguments);
    StreamsBuilder topology = new StreamsBuilder();
    if (run.is("workload", "pass-through")) {
      topology
          .stream(run.get("input"), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
          .peek((key, value) -> Run.processed())
          .to(run.get("output"), Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
    } else {
      stores(topology, run);
    }
    KafkaStreams streams = new KafkaStreams(topology.build(), KafkaStreamsPeer.settings(run));
    streams.start();
    run.await();
    streams.close(Duration.ofSeconds(60));
    run.committed();
    System.exit(0);
  }

  private static void stores(StreamsBuilder topology, Run run) {
    int count = Integer.parseInt(run.get("stores"));
    int size = Integer.parseInt(run.get("bytes"));
    List<String> names = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      names.add("store-" + i);
      topology.addStateStore(
          Stores.keyValueStoreBuilder(
                  Stores.persistentKeyValueStore("store-" + i), Serdes.String(), Serdes.ByteArray())
              .withCachingEnabled());
    }
    topology.stream(run.get("input"), Consumed.with(Serdes.String(), Serdes.ByteArray()))
        .process(() -> new InTurn(names, size), names.toArray(String[]::new));
  }

  /** Writes a value of `size` bytes, or for 0 the count of the key. */
  private static final class InTurn extends ContextualProcessor<String, byte[], Void, Void> {
    private final List<String> names;
    private final int size;
    private final List<KeyValueStore<String, byte[]>> stores = new ArrayList<>();
    private int turn;

    InTurn(List<String> names, int size) {
      this.names = names;
      this.size = size;
    }

    @Override
    public void init(ProcessorContext<Void, Void> context) {
      super.init(context);
      for (String name : names) {
        stores.add(context.getStateStore(name));
      }
    }

    @Override
    public void process(Record<String, byte[]> record) {
      KeyValueStore<String, byte[]> store = stores.get(turn);
      turn = (turn + 1) % stores.size();
      byte[] held = store.get(record.key());
      store.put(record.key(), size > 0 ? new byte[size] : next(held));
      Run.processed();
    }

    private static byte[] next(byte[] held) {
      long count = held == null ? 0 : ByteBuffer.wrap(held).getLong();
      return ByteBuffer.allocate(Long.BYTES).putLong(count + 1).array();
    }
  }

  private KafkaStreamsCurves() {}
}
