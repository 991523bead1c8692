package samzapy.tests;

import java.io.FileInputStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.samza.application.ApplicationUtil;
import org.apache.samza.config.MapConfig;
import org.apache.samza.job.ApplicationStatus;
import org.apache.samza.runtime.LocalApplicationRunner;

/** Runs the job of a properties file in this process until its tasks stop it; exit code 1 if it failed. */
public final class RunJob {
  public static void main(String[] args) throws Exception {
    Properties properties = new Properties();
    try (FileInputStream file = new FileInputStream(args[0])) {
      properties.load(file);
    }
    Map<String, String> keys = new HashMap<>();
    properties.stringPropertyNames().forEach(key -> keys.put(key, properties.getProperty(key)));
    MapConfig config = new MapConfig(keys);
    LocalApplicationRunner runner = new LocalApplicationRunner(ApplicationUtil.fromConfig(config), config);
    runner.run(null);
    runner.waitForFinish();
    boolean done = runner.status().getStatusCode() == ApplicationStatus.StatusCode.SuccessfulFinish;
    System.err.println("finished: " + runner.status());
    System.exit(done ? 0 : 1);
  }

  private RunJob() {}
}
