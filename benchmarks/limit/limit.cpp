// The limit: the least that the keyed count and the pass-through can cost with librdkafka and simdjson, in one thread
// beside librdkafka's own. It takes the options of the peers' programs, and leaves the same marks.
//
// keyed-count counts by the event's user in a hash map, and writes each changed key once per commit to the output, as a
// changelog.
// pass-through finds the event's id, so that what is no JSON fails, and appends a field to the event's bytes.
// A run without end is one for latency: it waits a millisecond where the others wait longer.
// It keeps no state on disk and no positions, and restores, fences and retries nothing.

#include <librdkafka/rdkafka.h>
#include <simdjson.h>
#include <time.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace {

constexpr int kPartitions = 4;
constexpr int kBatch = 10000;
constexpr int kPollMs = 10;
constexpr int kFlushMs = 60000;

using Options = std::map<std::string, std::string>;
using Settings = std::vector<std::pair<const char*, std::string>>;
using Counts = std::unordered_map<std::string, int64_t>;

[[noreturn]] void fail(const std::string& reason) {
  std::fprintf(stderr, "error: %s\n", reason.c_str());
  std::exit(1);
}

// CLOCK_MONOTONIC, which is Python's time.monotonic, too.
double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

void mark(const Options& options, const char* event) {
  FILE* file = std::fopen(options.at("marks").c_str(), "a");
  if (file == nullptr) fail("cannot write " + options.at("marks"));
  std::fprintf(file, "%s %.6f\n", event, now());
  std::fclose(file);
}

void check_delivery(rd_kafka_t*, const rd_kafka_message_t* message, void*) {
  if (message->err) fail(rd_kafka_err2str(message->err));
}

rd_kafka_t* client(rd_kafka_type_t type, const Settings& settings) {
  char reason[512];
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set_dr_msg_cb(conf, check_delivery);
  for (const auto& [name, value] : settings) {
    if (rd_kafka_conf_set(conf, name, value.c_str(), reason, sizeof reason) != RD_KAFKA_CONF_OK) fail(reason);
  }
  rd_kafka_t* made = rd_kafka_new(type, conf, reason, sizeof reason);
  if (made == nullptr) fail(reason);
  return made;
}

class Producer {
 public:
  Producer(const Options& options, const std::string& topic)
      : client_(client(RD_KAFKA_PRODUCER, {{"bootstrap.servers", options.at("bootstrap")},
                                           {"enable.idempotence", "true"},
                                           {"delivery.report.only.error", "true"},
                                           {"linger.ms", options.at("events") == "0" ? "1" : "5"},
                                           {"queue.buffering.max.messages", "1000000"}})),
        topic_(rd_kafka_topic_new(client_, topic.c_str(), nullptr)) {}

  void send(int partition, std::string_view key, std::string_view value) {
    while (rd_kafka_produce(topic_, partition, RD_KAFKA_MSG_F_COPY, const_cast<char*>(value.data()), value.size(),
                            key.data(), key.size(), nullptr) == -1) {
      rd_kafka_poll(client_, kPollMs);
    }
  }

  void poll() { rd_kafka_poll(client_, 0); }

  void flush() {
    if (rd_kafka_flush(client_, kFlushMs) != RD_KAFKA_RESP_ERR_NO_ERROR) fail("records were not acknowledged");
  }

 private:
  rd_kafka_t* client_;
  rd_kafka_topic_t* topic_;
};

class Loop {
 public:
  explicit Loop(const Options& options)
      : passes_(options.at("workload") == "pass-through"), producer_(options, options.at("output")) {}

  void process(const rd_kafka_message_t& message) {
    const char* payload = static_cast<const char*>(message.payload);
    buffer_.assign(payload, message.len);
    buffer_.reserve(message.len + simdjson::SIMDJSON_PADDING);
    simdjson::ondemand::document event = parser_.iterate(buffer_.data(), buffer_.size(), buffer_.capacity());
    if (passes_) {
      (void)event["id"].get_int64().value();
      output_.assign(payload, message.len - 1).append(",\"seen\":true}");
      producer_.send(message.partition, {static_cast<const char*>(message.key), message.key_len}, output_);
      return;
    }
    key_.assign(event["user"].get_string().value());
    changed_[message.partition][key_] = ++counts_[message.partition][key_];
  }

  void poll() { producer_.poll(); }

  void commit() {
    for (int partition = 0; partition < kPartitions; ++partition) {
      for (const auto& [key, count] : changed_[partition]) {
        producer_.send(partition, key, {reinterpret_cast<const char*>(&count), sizeof count});
      }
      changed_[partition].clear();
    }
    producer_.flush();
  }

 private:
  bool passes_;
  Producer producer_;
  simdjson::ondemand::parser parser_;
  std::string buffer_, output_, key_;
  std::array<Counts, kPartitions> counts_, changed_;
};

rd_kafka_queue_t* consumed(const Options& options) {
  rd_kafka_t* consumer = client(RD_KAFKA_CONSUMER, {{"bootstrap.servers", options.at("bootstrap")},
                                                    {"group.id", options.at("id")},
                                                    {"enable.auto.commit", "false"},
                                                    {"enable.auto.offset.store", "false"},
                                                    {"queued.min.messages", "50000"},
                                                    {"queued.max.messages.kbytes", "16384"}});
  rd_kafka_topic_partition_list_t* partitions = rd_kafka_topic_partition_list_new(kPartitions);
  for (int number = 0; number < kPartitions; ++number) {
    rd_kafka_topic_partition_list_add(partitions, options.at("input").c_str(), number)->offset = 0;
  }
  rd_kafka_assign(consumer, partitions);
  return rd_kafka_queue_get_consumer(consumer);
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) options[arguments[i] + 2] = arguments[i + 1];
  const long events = std::stol(options.at("events"));
  const int wait_ms = events == 0 ? 1 : kPollMs;
  const double interval = std::stol(options.at("commit-ms")) / 1000.0;
  rd_kafka_queue_t* queue = consumed(options);
  Loop loop(options);
  std::vector<rd_kafka_message_t*> batch(kBatch);
  double due = 0;
  for (long done = 0; events == 0 || done < events;) {
    const ssize_t found = rd_kafka_consume_batch_queue(queue, wait_ms, batch.data(), batch.size());
    for (ssize_t i = 0; i < found; ++i) {
      if (batch[i]->err) fail(rd_kafka_message_errstr(batch[i]));
      if (done++ == 0) {
        mark(options, "first");
        due = now() + interval;
      }
      loop.process(*batch[i]);
      rd_kafka_message_destroy(batch[i]);
    }
    loop.poll();
    if (due != 0 && now() > due) {
      loop.commit();
      due = now() + interval;
    }
  }
  mark(options, "last");
  loop.commit();
  mark(options, "committed");
}
