package peers;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.functions.ScalarFunction;

/** The same in Flink SQL: a grouped count on RocksDB with incremental checkpoints, or a projection; one slot. */
public final class FlinkSqlPeer {
  private static final String COLUMNS =
      "k STRING, id BIGINT, `user` STRING, page STRING, amount DOUBLE, `at` BIGINT, referrer STRING";

  /** Counts the messages as they come out of the JSON decoder; passes its argument on. */
  public static final class Processed extends ScalarFunction {
    public String eval(String user) {
      Run.processed();
      return user;
    }

    @Override
    public boolean isDeterministic() {
      return false;
    }
  }

  public static void main(String[] arguments) throws Exception {
    Run run = Run.of(arguments);
    StreamTableEnvironment tables =
        StreamTableEnvironment.create(StreamExecutionEnvironment.createLocalEnvironment(settings(run)));
    if (run.is("mini-batch", "yes")) {
      tables.getConfig().set("table.exec.mini-batch.enabled", "true");
      tables.getConfig().set("table.exec.mini-batch.allow-latency", "2 s");
      tables.getConfig().set("table.exec.mini-batch.size", "20000");
    }
    tables.createTemporarySystemFunction("PROCESSED", Processed.class);
    tables.executeSql(
        table(run, "events", run.get("input"), COLUMNS)
            + ", 'properties.group.id'='" + run.get("id") + "'"
            + ", 'scan.startup.mode'='earliest-offset'"
            + (run.is("events", "0") ? ")" : ", 'scan.bounded.mode'='latest-offset')"));
    tables.executeSql(query(run, tables)).await();
    run.committed();
    System.exit(0);
  }

  private static String query(Run run, StreamTableEnvironment tables) {
    if (run.is("workload", "pass-through")) {
      tables.executeSql(table(run, "seen", run.get("output"), COLUMNS + ", seen BOOLEAN") + delivery(run) + ")");
      return "INSERT INTO seen SELECT k, id, PROCESSED(`user`), page, amount, `at`, referrer, TRUE FROM events";
    }
    String field = run.is("workload", "repartitioned-count") ? "page" : "`user`";
    // Nothing reads the counts: as in the other programs they stay in the state.
    tables.executeSql("CREATE TEMPORARY TABLE counts (`user` STRING, n BIGINT) WITH ('connector'='blackhole')");
    return "INSERT INTO counts SELECT u, COUNT(*) FROM (SELECT PROCESSED(" + field + ") AS u FROM events) GROUP BY u";
  }

  private static String delivery(Run run) {
    // The broker refuses the connector's own time-out, an hour.
    return run.is("guarantee", "exactly-once")
        ? ", 'sink.delivery-guarantee'='exactly-once', 'sink.transactional-id-prefix'='" + run.get("id") + "'"
            + ", 'properties.transaction.timeout.ms'='600000'"
        : "";
  }

  private static String table(Run run, String name, String topic, String columns) {
    return "CREATE TEMPORARY TABLE " + name + " (" + columns + ") WITH ('connector'='kafka', 'topic'='" + topic + "'"
        + ", 'properties.bootstrap.servers'='" + run.get("bootstrap") + "'"
        + ", 'key.format'='raw', 'key.fields'='k', 'value.format'='json', 'value.fields-include'='EXCEPT_KEY'";
  }

  private static Configuration settings(Run run) {
    String folder = run.get("folder");
    Configuration settings = new Configuration();
    settings.setString("parallelism.default", "1");
    settings.setString("taskmanager.numberOfTaskSlots", "1");
    settings.setString("taskmanager.memory.managed.size", "512m");
    settings.setString("state.backend.type", "rocksdb");
    settings.setString("state.backend.rocksdb.localdir", folder + "/rocksdb");
    settings.setString("execution.checkpointing.incremental", "true");
    settings.setString("execution.checkpointing.interval", run.get("commit-ms") + " ms");
    settings.setString("execution.checkpointing.dir", "file://" + folder + "/checkpoints");
    settings.setString("io.tmp.dirs", folder);
    settings.setString("rest.bind-port", "0");
    settings.setString("restart-strategy.type", "none");
    return settings;
  }

  private FlinkSqlPeer() {}
}
