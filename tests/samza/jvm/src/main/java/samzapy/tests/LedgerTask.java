package samzapy.tests;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.samza.context.Context;
import org.apache.samza.storage.kv.KeyValueStore;
import org.apache.samza.system.IncomingMessageEnvelope;
import org.apache.samza.task.InitableTask;
import org.apache.samza.task.MessageCollector;
import org.apache.samza.task.StreamTask;
import org.apache.samza.task.TaskCoordinator;

/** Five stores, one a serde; every message changes its key in each. "bye" commits and stops the container. */
public class LedgerTask implements StreamTask, InitableTask {
  private KeyValueStore<String, String> strings;
  private KeyValueStore<String, Integer> integers;
  private KeyValueStore<Long, Long> longs;
  private KeyValueStore<String, Map<String, Object>> jsons;
  private KeyValueStore<byte[], byte[]> bytes;

  @Override
  @SuppressWarnings("unchecked")
  public void init(Context context) {
    strings = (KeyValueStore<String, String>) context.getTaskContext().getStore("strings");
    integers = (KeyValueStore<String, Integer>) context.getTaskContext().getStore("integers");
    longs = (KeyValueStore<Long, Long>) context.getTaskContext().getStore("longs");
    jsons = (KeyValueStore<String, Map<String, Object>>) context.getTaskContext().getStore("jsons");
    bytes = (KeyValueStore<byte[], byte[]>) context.getTaskContext().getStore("bytes");
  }

  @Override
  public void process(IncomingMessageEnvelope envelope, MessageCollector collector, TaskCoordinator coordinator) {
    String key = (String) envelope.getKey();
    String message = (String) envelope.getMessage();
    if (message.equals("bye")) {
      coordinator.commit(TaskCoordinator.RequestScope.CURRENT_TASK);
      coordinator.shutdown(TaskCoordinator.RequestScope.CURRENT_TASK);
      return;
    }
    if (message.equals("gone")) {
      strings.delete(key);
      return;
    }
    String before = strings.get(key);
    strings.put(key, before == null ? message : before + "," + message);
    Integer count = integers.get(key);
    integers.put(key, count == null ? 1 : count + 1);
    Long hash = (long) key.length();
    Long sum = longs.get(hash);
    longs.put(hash, (sum == null ? 0L : sum) + 10_000_000_000L);
    Map<String, Object> seen = jsons.get(key);
    Map<String, Object> now = new HashMap<>();
    now.put("last", message);
    now.put("count", seen == null ? 1 : ((Number) seen.get("count")).intValue() + 1);
    jsons.put(key, now);
    bytes.put(key.getBytes(StandardCharsets.UTF_8), message.getBytes(StandardCharsets.UTF_16BE));
  }
}
