package peers;

import java.util.HashMap;
import java.util.Map;
import org.apache.samza.application.ApplicationUtil;
import org.apache.samza.config.MapConfig;
import org.apache.samza.context.Context;
import org.apache.samza.job.ApplicationStatus;
import org.apache.samza.runtime.LocalApplicationRunner;
import org.apache.samza.storage.kv.KeyValueStore;
import org.apache.samza.system.IncomingMessageEnvelope;
import org.apache.samza.system.OutgoingMessageEnvelope;
import org.apache.samza.system.SystemStream;
import org.apache.samza.task.InitableTask;
import org.apache.samza.task.MessageCollector;
import org.apache.samza.task.StreamTask;
import org.apache.samza.task.TaskCoordinator;
import org.apache.samza.task.TaskCoordinator.RequestScope;

/** The same as tasks of Apache Samza: one container with Samza's defaults for caches and clients. */
public final class SamzaPeer {
  /** Counts by the event's user. */
  public static final class KeyedCount implements StreamTask, InitableTask {
    private KeyValueStore<String, Integer> counts;

    @Override
    @SuppressWarnings("unchecked")
    public void init(Context context) {
      counts = (KeyValueStore<String, Integer>) context.getTaskContext().getStore("counts");
    }

    @Override
    @SuppressWarnings("unchecked")
    public void process(IncomingMessageEnvelope envelope, MessageCollector collector, TaskCoordinator coordinator) {
      String user = (String) ((Map<String, Object>) envelope.getMessage()).get("user");
      Integer count = counts.get(user);
      counts.put(user, count == null ? 1 : count + 1);
      endAfterTheLast(coordinator);
    }
  }

  /** Adds a field and sends the event on. */
  public static final class PassThrough implements StreamTask, InitableTask {
    private SystemStream output;

    @Override
    public void init(Context context) {
      output = new SystemStream("kafka", context.getJobContext().getConfig().get("peer.output"));
    }

    @Override
    @SuppressWarnings("unchecked")
    public void process(IncomingMessageEnvelope envelope, MessageCollector collector, TaskCoordinator coordinator) {
      Map<String, Object> event = (Map<String, Object>) envelope.getMessage();
      event.put("seen", true);
      collector.send(new OutgoingMessageEnvelope(output, envelope.getKey(), event));
      endAfterTheLast(coordinator);
    }
  }

  private static void endAfterTheLast(TaskCoordinator coordinator) {
    if (Run.processed()) {
      coordinator.commit(RequestScope.ALL_TASKS_IN_CONTAINER);
      coordinator.shutdown(RequestScope.ALL_TASKS_IN_CONTAINER);
    }
  }

  public static void main(String[] arguments) {
    Run run = Run.of(arguments);
    MapConfig config = new MapConfig(config(run));
    LocalApplicationRunner runner = new LocalApplicationRunner(ApplicationUtil.fromConfig(config), config);
    runner.run(null);
    runner.waitForFinish();
    run.committed();
    System.err.println("finished: " + runner.status());
    System.exit(runner.status().getStatusCode() == ApplicationStatus.StatusCode.SuccessfulFinish ? 0 : 1);
  }

  private static Map<String, String> config(Run run) {
    boolean counts = run.is("workload", "keyed-count");
    Map<String, String> keys = new HashMap<>();
    keys.put("app.name", run.get("id"));
    keys.put("task.class", (counts ? KeyedCount.class : PassThrough.class).getName());
    keys.put("job.name", run.get("id"));
    keys.put("processor.id", "0");
    keys.put("job.coordinator.factory", "org.apache.samza.standalone.PassthroughJobCoordinatorFactory");
    keys.put("task.name.grouper.factory", "org.apache.samza.container.grouper.task.GroupByContainerIdsFactory");
    keys.put("task.inputs", "kafka." + run.get("input"));
    keys.put("task.commit.ms", run.get("commit-ms"));
    keys.put("task.checkpoint.factory", "org.apache.samza.checkpoint.kafka.KafkaCheckpointManagerFactory");
    keys.put("task.checkpoint.system", "kafka");
    keys.put("task.checkpoint.replication.factor", "1");
    keys.put("job.default.system", "kafka");
    keys.put("job.logged.store.base.dir", run.get("folder"));
    keys.put("job.non-logged.store.base.dir", run.get("folder"));
    keys.put("peer.output", run.get("output"));
    keys.put("systems.kafka.samza.factory", "org.apache.samza.system.kafka.KafkaSystemFactory");
    keys.put("systems.kafka.consumer.bootstrap.servers", run.get("bootstrap"));
    keys.put("systems.kafka.producer.bootstrap.servers", run.get("bootstrap"));
    // Required, and never asked for anything.
    keys.put("systems.kafka.consumer.zookeeper.connect", "127.0.0.1:1");
    keys.put("systems.kafka.default.stream.replication.factor", "1");
    keys.put("systems.kafka.default.stream.samza.offset.default", "oldest");
    keys.put("systems.kafka.default.stream.samza.key.serde", "string");
    keys.put("systems.kafka.default.stream.samza.msg.serde", "json");
    keys.put("serializers.registry.string.class", "org.apache.samza.serializers.StringSerdeFactory");
    keys.put("serializers.registry.integer.class", "org.apache.samza.serializers.IntegerSerdeFactory");
    keys.put("serializers.registry.json.class", "org.apache.samza.serializers.JsonSerdeV2Factory");
    if (counts) {
      keys.put("stores.counts.factory", "org.apache.samza.storage.kv.RocksDbKeyValueStorageEngineFactory");
      keys.put("stores.counts.changelog", "kafka." + run.get("id") + "-counts");
      keys.put("stores.counts.changelog.replication.factor", "1");
      keys.put("stores.counts.key.serde", "string");
      keys.put("stores.counts.msg.serde", "integer");
    }
    return keys;
  }

  private SamzaPeer() {}
}
