package peers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/**
 * One measured run: what the command line says, and the marks that say when the first and the last message were processed
 * and when everything was committed.
 *
 * <p>The clock is System.nanoTime, which on Linux is the monotonic clock that Python's time.monotonic reads.
 */
public final class Run {
  private static final AtomicBoolean BEGUN = new AtomicBoolean();
  private static final AtomicLong DONE = new AtomicLong();
  private static final CountDownLatch ALL = new CountDownLatch(1);
  private static Run current;

  private final Map<String, String> options = new HashMap<>();
  private final long events;
  private final long skipped;

  private Run(String[] arguments) {
    for (int i = 0; i + 1 < arguments.length; i += 2) {
      options.put(arguments[i].substring(2), arguments[i + 1]);
    }
    events = Long.parseLong(get("events"));
    skipped = number("skip", 0);
  }

  /** The run of this process, from `--name value` pairs. */
  public static Run of(String[] arguments) {
    current = new Run(arguments);
    return current;
  }

  public String get(String option) {
    String value = options.get(option);
    if (value == null) {
      throw new IllegalArgumentException("--" + option + " is missing");
    }
    return value;
  }

  public boolean is(String option, String value) {
    return value.equals(options.get(option));
  }

  /** A number of the command line, or the default. */
  public int number(String option, int otherwise) {
    return Integer.parseInt(options.getOrDefault(option, String.valueOf(otherwise)));
  }

  /** Marks the first message, for one that is counted later. */
  public static void begin() {
    if (!BEGUN.get() && BEGUN.compareAndSet(false, true)) {
      current.mark("first");
    }
  }

  /** Counts one message; true for the last one of the run. The run begins after the first `--skip` messages. */
  public static boolean processed() {
    long done = DONE.incrementAndGet();
    if (done > current.skipped) {
      begin();
    }
    if (done == current.events) {
      current.mark("last");
      ALL.countDown();
      return true;
    }
    return false;
  }

  /** Waits until every message was processed. */
  public void await() throws InterruptedException {
    ALL.await();
  }

  public void committed() {
    mark("committed");
  }

  private synchronized void mark(String event) {
    String line = event + " " + System.nanoTime() / 1e9 + "\n";
    try {
      Files.writeString(Path.of(get("marks")), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException failure) {
      throw new IllegalStateException(failure);
    }
  }
}
