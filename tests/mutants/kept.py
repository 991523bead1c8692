"""The changes, by what they are about."""

from __future__ import annotations

from tests.mutants.trial import Mutant

_ANSWERS = "tests/contract/test_answers_of_the_environment.py"
_ASYNC = "tests/property/test_asynchronous_order.py"
_CACHES = "tests/unit/storage/kv/test_cache_budget.py"
_CAUSES = "tests/unit/container/errors/test_causes_of_failures.py"
_CLOCK = "tests/property/test_event_clock_machine.py"
_CONTAINER = "tests/unit/container/test_container.py"
_CONTAINERS = "tests/property/test_container_machine.py"
_TRANSACTIONS = "tests/contract/system/test_system_transactions_contract.py"
_LEASES = "tests/unit/coordinator/test_leases.py"
_LOCAL = "tests/unit/system/test_logs.py"
_COPIES = "tests/unit/dataframe/test_store_copies.py"
_MARKS = "tests/unit/clock/test_watermarks.py"
_OFFSETS = "tests/unit/checkpoint/test_files_and_codec.py"
_POLICIES = "tests/unit/container/errors/test_error_policies.py"
_BATCHES = "tests/unit/container/batches"
_QUEUES = ("tests/unit/native/test_native_queues.py",)
_RESTORE = "tests/unit/storage/changelog/test_restore.py"
_TWENTY = "tests/property/test_twenty_times.py"
#: Who owns a job, a container, a transaction.
_OWNERS = (
    Mutant(
        "samzapy/dataframe/partition_writer.py",
        "            producer.init_transactions()\n            ownership.poll()\n",
        "            producer.init_transactions()\n",
        ("tests/unit/dataframe/test_partition_writes.py",),
    ),
    Mutant(
        "samzapy/dataframe/copying.py",
        "        refuse_records_past(ends, dict.fromkeys(ends, self.store.name), clients)\n",
        "",
        (_COPIES,),
    ),
    Mutant("samzapy/dataframe/copying.py", "            check_owner=ownership.poll,\n", "", (_COPIES,)),
    Mutant("samzapy/runner/prepare.py", "        refuse_copied(checkpoints, config.stores)\n", "", (_COPIES,)),
    Mutant(
        "samzapy/container/supervision/job_records.py",
        'return asked is not None and asked.get("run") == self.run_id',
        "return asked is not None",
        ("tests/unit/admin/test_drain_request.py",),
    ),
    Mutant(
        "samzapy/system/kafka/producer.py",
        "        if took_over := self._connection.disturbed:\n",
        "        if False:\n",
        ("tests/integration/systems/test_disturbed_producer.py",),
    ),
    Mutant(
        "samzapy/coordinator/leases.py",
        "if self._abandoned or grant is None or grant.epoch != epoch:",
        "if self._abandoned or grant is None:",
        (_LEASES,),
    ),
    Mutant("samzapy/coordinator/leases.py", "monotonic() >= grant.expires", "monotonic() > grant.expires", (_LEASES,)),
    Mutant(
        "samzapy/coordinator/leases.py",
        "max(self._last_epoch + 1, self._clock.wall_ms() if self._by_clock else 0)",
        "self._clock.wall_ms()",
        (_LEASES,),
    ),
    Mutant("samzapy/coordinator/leases.py", "        self._released.discard(container_id)\n", "", (_LEASES,)),
    Mutant(
        "samzapy/coordinator/leases.py",
        "if grant is not None and grant.epoch == epoch:\n            grant.state = state",
        "if grant is not None:\n            grant.state = state",
        (_LEASES,),
    ),
    Mutant("samzapy/coordinator/leases.py", "if grant.state is not ContainerState.DONE:\n", "if True:\n", (_LEASES,)),
)

#: The embedded systems.
_SYSTEMS = (
    Mutant(
        "samzapy/system/local/streams.py",
        "WHERE transactional_id = ? AND deadline_ms IS NULL",
        "WHERE transactional_id = ?",
        (_LOCAL,),
    ),
    Mutant("samzapy/system/local/streams.py", "WHERE deadline_ms <= ?", "WHERE deadline_ms < ?", (_LOCAL,)),
    Mutant(
        "samzapy/system/local/streams.py",
        "if row is None or row[0] != owner.epoch:",
        "if row is None:",
        (_LOCAL, _TRANSACTIONS + "::test_a_fenced_producer_cannot_commit"),
    ),
    Mutant(
        "samzapy/system/local/streams.py",
        "    abort(database, transactional_id)\n    database.execute(\n",
        "    database.execute(\n",
        (_LOCAL, _TRANSACTIONS),
    ),
    Mutant("samzapy/system/local/factory.py", "blocked or stable < upcoming", "blocked", (_LOCAL,)),
    Mutant(
        "samzapy/system/local/streams.py",
        "_compact(database, settings, slot, result.stable, now_ms)",
        "_compact(database, settings, slot, result.upcoming, now_ms)",
        (_LOCAL,),
    ),
    Mutant("samzapy/system/local/streams.py", "AND time_ms <= ?", "AND time_ms < ?", (_LOCAL,)),
    Mutant(
        "samzapy/system/local/streams.py",
        "coalesce((SELECT min(first)",
        "coalesce((SELECT max(first)",
        (_TRANSACTIONS + "::test_a_reader_waits_for_the_oldest_of_several_open_transactions[memory]",),
    ),
    Mutant(
        "samzapy/system/local/streams.py",
        "min(result.upcoming if kept is None else kept, result.stable)",
        "result.upcoming if kept is None else kept",
        (_LOCAL,),
    ),
)

#: Inputs by regular expression, tables, bootstrap streams.
_INPUTS = (
    Mutant(
        "samzapy/job/planner.py",
        "InputPartitions(0 if stream in late else count, count, count)",
        "InputPartitions(count, count, count)",
        ("tests/unit/job/test_inputs.py",),
    ),
    Mutant(
        "samzapy/job/planner.py", "    if not ever:\n        return set()\n", "", ("tests/unit/job/test_inputs.py",)
    ),
    Mutant(
        "samzapy/container/supervision/job_records.py",
        "return not (self.failed or self.again)",
        "return not self.failed",
        ("tests/unit/admin/test_drain_request.py",),
    ),
    Mutant(
        "samzapy/coordinator/server.py",
        'not self._cookie or _name(headers.get(b"host", b"")) in self._hosts',
        "True",
        ("tests/unit/coordinator/test_coordinator_service.py",),
    ),
    Mutant(
        "samzapy/runner/prepare.py",
        "owner is not None and owner.id != self.after:",
        "False:",
        ("tests/unit/runner/test_new_inputs.py",),
    ),
    Mutant(
        "samzapy/system/kafka/queue.py",
        "            done, code = self._native.put(stream, done, numbers",
        "            done, code = self._native.put(stream, 0, numbers",
        ("tests/integration/systems/test_producing_on_kafka.py",),
    ),
    Mutant(
        "samzapy/system/choosers.py",
        "if position(ssp) < head and ssp not in self._ended\n",
        "if False\n",
        ("tests/unit/system/test_choosing_consumer.py",),
    ),
    Mutant(
        "samzapy/system/choosers.py",
        "if at < head and ssp",
        "if at <= head and ssp",
        ("tests/unit/system/test_choosing_consumer.py",),
    ),
    Mutant(
        "samzapy/system/choosers.py",
        "if at < head and ssp not in self._ended:",
        "if at < head:",
        ("tests/unit/container/inputs/test_ends.py",),
    ),
)

#: Where a task starts, and what it holds then.
_STATE = (
    Mutant("samzapy/checkpoint/records.py", "if log.oldest <= committed:", "if True:", (_OFFSETS,)),
    Mutant(
        "samzapy/checkpoint/records.py", "committed > log.upcoming and", "committed > log.upcoming + 1 and", (_OFFSETS,)
    ),
    Mutant(
        "samzapy/checkpoint/records.py",
        "checkpoint is None or stream.reset_offset else",
        "checkpoint is None else",
        (_OFFSETS,),
    ),
    Mutant("samzapy/checkpoint/records.py", "max(log.oldest, log.upcoming - 1)", "log.upcoming - 1", (_OFFSETS,)),
    Mutant(
        "samzapy/storage/changelog/restore.py",
        "positions[r.ssp] >= r.bound]",
        "positions[r.ssp] > r.bound]",
        (_RESTORE,),
    ),
    Mutant(
        "samzapy/storage/changelog/restore.py",
        "count = bisect_left(batch.offsets, self.bound)",
        "count = len(batch.offsets)",
        (_RESTORE,),
    ),
    Mutant(
        "samzapy/storage/changelog/restore.py",
        "self._write(self.bound - 1, now_ms)",
        "self._write(self.bound, now_ms)",
        (_RESTORE,),
    ),
    Mutant(
        "samzapy/storage/changelog/restore.py",
        "if active and clock.monotonic() - moved > stall_s:",
        "if False:",
        (_RESTORE,),
    ),
    Mutant(
        "samzapy/storage/opening.py",
        "else opened.marker.changelog_offset + 1",
        "else opened.marker.changelog_offset",
        (_RESTORE,),
    ),
    Mutant(
        "samzapy/storage/opening.py",
        "        check_end(ssp, log, committed, ",
        "        dict(",
        (f"{_CONTAINER}::test_a_deleted_changelog_is_refused_and_the_local_store_is_left_alone",),
    ),
    Mutant(
        "samzapy/storage/changelog/topic.py",
        "if committed >= log.upcoming or",
        "if committed > log.upcoming or",
        (_RESTORE,),
    ),
    Mutant(
        "samzapy/storage/changelog/topic.py",
        "if committed >= 0 and log.oldest > 0:",
        "if committed > 0 and log.oldest > 0:",
        (_RESTORE,),
    ),
    Mutant(
        "samzapy/storage/kv/expiring.py",
        "return self.clock.wall_ms() - self.ttl_ms",
        "return self.clock.wall_ms() - self.ttl_ms - 1",
        ("tests/unit/storage/kv/test_expiring_store.py",),
    ),
)

#: Messages that fail, commits that are asked for.
_LOOP = (
    Mutant(
        "samzapy/container/run_loop.py",
        "if run[0].offset >= task.offsets[ssp]:",
        "if True:",
        (_CONTAINER + "::test_a_task_ahead_of_another_in_a_broadcast_gets_nothing_twice",),
    ),
    Mutant(
        "samzapy/container/run_loop.py",
        "or all(item.requests",
        "or any(item.requests",
        ("tests/unit/container/tasks/test_executor_contract.py",),
    ),
    Mutant(
        "samzapy/container/run_loop.py",
        "        if task.over_budget():\n            self.commit()\n        if self._clock",
        "        if self._clock",
        (_CONTAINER,),
    ),
    Mutant(
        "samzapy/container/run_loop.py",
        "        if task.requests.pending:\n            self._handle_requests(task)\n        if step",
        "        if step",
        (_CONTAINER,),
    ),
    Mutant(
        "samzapy/container/errors/recovery.py",
        "        if not policy.ignores(failure):\n            for",
        "        if True:\n            for",
        (_POLICIES + "::test_ignored_exceptions_are_skipped_at_once_and_the_others_are_not",),
    ),
    Mutant(
        "samzapy/container/errors/recovery.py", "        return failure.refused\n", "        return True\n", (_CAUSES,)
    ),
    Mutant(
        "samzapy/container/errors/recovery.py",
        "        return isinstance(failure, StoreRefused)\n",
        "        return True\n",
        (_CAUSES,),
    ),
    Mutant("samzapy/container/errors/recovery.py", "in reversed(self._before):", "in self._before:", (_POLICIES,)),
    Mutant("samzapy/container/errors/processing.py", "                begin()\n", "", (_POLICIES,)),
    Mutant(
        "samzapy/container/errors/processing.py",
        "        self._journal.begin()\n",
        "",
        (_BATCHES + "/test_halving.py",),
    ),
    Mutant(
        "samzapy/container/errors/processing.py",
        "            return part[half:], part[:half]\n",
        "            return part[:half], part[half:]\n",
        (_BATCHES + "/test_halving.py",),
    ),
    Mutant(
        "samzapy/container/errors/processing.py",
        "if failure is None and not self._collector.undecided:",
        "if failure is None:",
        (_BATCHES + "/test_halving.py",),
    ),
    Mutant(
        "samzapy/container/errors/processing.py",
        "        self._task.sinks.back_to(before[1], part)\n",
        "",
        (_BATCHES + "/test_halving.py",),
    ),
    Mutant(
        "samzapy/operators/persistent/task.py",
        "(batch[:sent], _OUT_ALREADY)",
        "(batch[:sent], collector)",
        (_BATCHES + "/test_persistent_batches.py",),
    ),
    Mutant(
        "samzapy/container/errors/processing.py",
        "            self._undo(batch, before)\n",
        "",
        (_BATCHES + "/test_failing_batches.py",),
    ),
    Mutant(
        "samzapy/container/errors/recovery.py",
        "                store.delete_all([item for item, held in pairs if held is None])\n",
        "",
        (_BATCHES + "/test_halving.py",),
    ),
    Mutant(
        "samzapy/container/outputs/output_ids.py",
        "        if not self._in_order:\n",
        "        if False:\n",
        (_BATCHES + "/test_batch_ids.py",),
    ),
    Mutant(
        "samzapy/container/tasks/synchronous.py",
        "if ssp in ended or now",
        "if now",
        (_BATCHES + "/test_batch_tasks.py",),
    ),
    Mutant(
        "samzapy/config/stores/store.py",
        '        mode = "copy"\n',
        "        pass\n",
        (_POLICIES + "::test_an_object_changed_in_place_is_as_before_after_a_failed_message",),
    ),
    Mutant(
        "samzapy/config/error_policy.py",
        "and not self.retries and not self.ignored",
        "and not self.retries",
        (_POLICIES, "tests/unit/config/tasks/test_error_keys.py"),
    ),
    Mutant(
        "samzapy/config/error_policy.py",
        "min(self.backoff_ms * 2**n, LONGEST_BACKOFF_MS)",
        "self.backoff_ms * 2**n",
        ("tests/unit/config/tasks/test_error_keys.py",),
    ),
    Mutant(
        "samzapy/config/stores/store.py",
        "and 0 < cache < batch:",
        "and 0 < cache <= batch:",
        ("tests/unit/config/stores/test_store_keys.py",),
    ),
    Mutant(
        "samzapy/config/task.py",
        'if reader.value(TaskConfig, "guarantee").transactional and not reader.is_set(_COMMIT):',
        "if not reader.is_set(_COMMIT):",
        ("tests/unit/config/tasks/test_task_keys.py",),
    ),
)

_COMMIT = "tests/unit/container/commit/test_commit_order.py"
_OWNED = "tests/unit/container/commit/test_state_transactions.py"
_FOREIGN = "tests/unit/container/commit/test_foreign_records.py"
_END = "tests/unit/storage/changelog/test_changelog_end.py"

_COMMITS: tuple[Mutant, ...] = (
    Mutant(
        "samzapy/storage/kv/uncommitted.py",
        "        if value is not None:\n            yield key, value\n",
        "        if value:\n            yield key, value\n",
        ("tests/property/storage/test_store_machine.py",),
    ),
    Mutant(
        "samzapy/container/outputs/collector.py",
        "zip_longest(self._gathered.items(), mark, fillvalue=0):",
        "zip(self._gathered.items(), mark):",
        ("tests/unit/container/errors/test_error_policies.py",),
    ),
    Mutant(
        "samzapy/container/commit_protocol.py",
        "        self._must_own()\n        epoch, now, atomic",
        "        epoch, now, atomic",
        (_COMMIT,),
    ),
    Mutant("samzapy/container/commit_protocol.py", "ends[ssp] - 1", "ends[ssp]", (_FOREIGN,)),
    Mutant(
        "samzapy/container/commit_protocol.py",
        "                    producer.flush()\n",
        "                    pass\n",
        (_COMMIT,),
    ),
    Mutant(
        "samzapy/container/commit_protocol.py",
        '        reach("commit.5a")\n        self._must_own()\n        state.commit(tasks)\n',
        '        reach("commit.5a")\n        for task in tasks:\n'
        "            task.stores.apply(task.changelog_offsets, offsets[task.name])\n"
        '        reach("commit.6")\n        state.commit(tasks)\n',
        (_COMMIT,),
    ),
    Mutant(
        "samzapy/container/commit_protocol.py",
        "        if now - self._checked_at > self._period_s:\n",
        "        if self._looked_at < 0:\n",
        (_OWNED + "::test_a_poll_is_not_processed_if_another_run_took_over_meanwhile",),
    ),
    Mutant(
        "samzapy/container/outputs/producers.py",
        "            if self._producer.begin():\n",
        "            if self._producer.begin() and False:\n",
        ("tests/unit/container/outputs/test_transaction_on_demand.py",),
    ),
    Mutant(
        "samzapy/container/tasks/asynchronous.py",
        "            oldest = next(iter(self._in_flight.values()))\n",
        "            oldest = max(self._in_flight.values(), key=lambda each: each.started_at)\n",
        ("tests/unit/container/tasks/test_async_tasks.py",),
    ),
    Mutant(
        "samzapy/config/job.py",
        "return f\"{self.name}-{self.id.replace('-', '~')}\"",
        'return f"{self.name}-1"',
        (_OWNED,),
    ),
    Mutant("samzapy/config/job.py", "self.id.replace('-', '~')", "self.id", (_OWNED,)),
    Mutant(
        "samzapy/container/errors/user_failures.py",
        "self._ids.letter(envelope, number)",
        "self._ids.letter(envelope, 0)",
        ("tests/unit/container/outputs/test_effectively_once.py", "tests/unit/container/errors/test_error_policies.py"),
    ),
    Mutant(
        "samzapy/storage/local/directory.py",
        "if engine.marker() == marker.to_bytes():",
        "if True:",
        ("tests/unit/storage", "tests/unit/container/stores/test_snapshots.py"),
    ),
    Mutant(
        "samzapy/storage/changelog/restore.py",
        "restore.finish(as_of_ms)",
        "restore.finish(clock.wall_ms())",
        ("tests/unit/storage/changelog/test_restore.py",),
    ),
    Mutant(
        "samzapy/checkpoint/codec.py",
        "decode_json(_Checkpoint, value, FORMAT)",
        "decode_json(_Checkpoint, value)",
        ("tests/unit/checkpoint",),
    ),
    Mutant(
        "samzapy/checkpoint/managers.py",
        "if known is None or checkpoint.epoch >= known.epoch:",
        "if True:",
        ("tests/contract/checkpoint/test_checkpoint_contract.py",),
    ),
    Mutant(
        "samzapy/storage/changelog/restore.py",
        "if self._known_end is not None and batch.offsets[-1] >= self._known_end:",
        "if False:",
        (_FOREIGN,),
    ),
    Mutant("samzapy/storage/changelog/topic.py", "        if first > self.end:\n", "        if False:\n", (_END,)),
    Mutant("samzapy/storage/changelog/topic.py", "        if upcoming > self.end:\n", "        if False:\n", (_END,)),
    Mutant(
        "samzapy/storage/changelog/topic.py",
        "tail = Tail(self.ssp, self._own, until)\n",
        "tail = Tail(self.ssp, self.end, until)\n",
        (_END,),
    ),
    Mutant("samzapy/admin/take_over.py", "    return previous.transactional_ids\n", "    return ()\n", (_OWNED,)),
    Mutant(
        "samzapy/admin/take_over.py",
        "owner.job is not None and owner.job != (config.name, config.id)",
        "False",
        (_OWNED,),
    ),
    Mutant("samzapy/admin/take_over.py", "        wait(longest_ms / 1000)\n", "        pass\n", (_OWNED,)),
    Mutant(
        "samzapy/admin/take_over.py",
        "        for run in fresh:\n",
        "        for run in ():\n",
        ("tests/unit/admin/test_take_over.py",),
    ),
    Mutant(
        "samzapy/storage/kv/cached.py",
        "if len(dirty) < patience and len(held) - len(dirty) >= room:",
        "if len(dirty) < patience:",
        ("tests/property/storage/test_cache_room.py",),
    ),
    Mutant(
        "samzapy/storage/kv/entries.py",
        "free = other.free if other is cache else other.give_back",
        "free = other.free",
        (f"{_CACHES}::test_a_cache_full_of_changes_keeps_them_and_the_other_makes_room_itself",),
    ),
    Mutant(
        "samzapy/storage/kv/cached.py",
        "return FACTOR * bytes_of_some * len(dirty) > len(some) * (self._budget.max_bytes // _COMMITTED)",
        "return False",
        (_CACHES,),
    ),
    Mutant(
        "samzapy/container/errors/recovery.py",
        "if len(result) == len(keys):",
        "if True:",
        ("tests/unit/container/errors/test_undo_journal.py",),
    ),
)

#: What containers, tasks, partitions and inputs have to do with one another.
_OTHERS = (
    Mutant(
        "samzapy/container/commit_protocol.py",
        "ssp: max(offset, ends.get(ssp, offset)) for",
        "ssp: ends.get(ssp, offset) for",
        (_CONTAINERS,),
    ),
    Mutant(
        "samzapy/container/run_loop.py",
        "check_idle(min(now, self._silent_until), waiting",
        "check_idle(now, waiting",
        ("tests/unit/container/event_time/test_event_clock.py",),
    ),
    Mutant(
        "samzapy/container/inputs/starting_offsets.py",
        "if streams and all(config.stream(stream).reset_offset",
        "if streams and any(config.stream(stream).reset_offset",
        (_CONTAINERS,),
    ),
    Mutant(
        "samzapy/container/inputs/starting_offsets.py",
        "self._refuse_made_anew(task, checkpoint, pinned)",
        "self._refuse_made_anew(task, checkpoint, followed)",
        (_CONTAINERS,),
    ),
    Mutant(
        "samzapy/container/errors/user_failures.py",
        'place = b"%d:%d" % (envelope.offset, number)',
        "place = None",
        (_CONTAINERS,),
    ),
)

#: What surrounds a job is slow, has nothing, a part, or what was true before; and what comes a second time.
_ANSWERED = (
    Mutant(
        "samzapy/system/local/factory.py",
        "complete = size < max_bytes and count < max_records",
        "complete = count < max_records",
        (_ANSWERS,),
    ),
    Mutant(
        "samzapy/system/kafka/queue.py",
        "                if not deadline or waiting != done:\n",
        "                if not deadline:\n",
        (_ANSWERS,),
    ),
    Mutant(
        "samzapy/storage/backup/snapshot.py",
        "if there.get(file.name) == file.size:",
        "if file.name in there:",
        (_ANSWERS,),
    ),
    Mutant(
        "samzapy/container/side_inputs.py",
        "        if not self._read(0.0, _MOST_RECORDS):\n",
        "        if self._read(0.0, _MOST_RECORDS) >= 0:\n",
        (_ANSWERS,),
    ),
    Mutant("samzapy/storage/kv/expiring.py", "max(_LEAST_SWEPT, 2 * written)", "_LEAST_SWEPT", (_ANSWERS,)),
    Mutant(
        "samzapy/runner/handover.py",
        '(answer.get("run"), answer.get("by")) == (self._before.id, self._request.by.id)',
        "bool(answer)",
        ("tests/unit/runner/test_handover.py",),
    ),
    Mutant("samzapy/runner/handover.py", "self.restart = asked.by.id", "pass", ("tests/unit/runner/test_handover.py",)),
    Mutant(
        "samzapy/runner/base.py",
        "            self.failures = 0\n",
        "            pass\n",
        ("tests/unit/runner/spark/executors/test_slots.py",),
    ),
    Mutant(
        "samzapy/container/errors/recovery.py",
        "more = self._left_out.pop(kind, 0)",
        "more = self._left_out.get(kind, 0)",
        (_TWENTY,),
    ),
)

#: Asynchronous tasks.
_ORDER = (Mutant("samzapy/container/tasks/in_flight.py", "            self._bytes -= size\n", "", (_ASYNC,)),)

#: A task's clock in event time.
_TIME = (
    Mutant(
        "samzapy/container/event_time/clock.py",
        "while accepted and offsets[accepted[0][0]] > accepted[0][1]:",
        "while accepted and offsets[accepted[0][0]] >= accepted[0][1]:",
        (_CLOCK,),
    ),
    Mutant(
        "samzapy/container/event_time/clock.py", "offsets[ssp] >= committed.get(ssp, offsets[ssp])", "True", (_CLOCK,)
    ),
    Mutant(
        "samzapy/container/event_time/clock.py",
        "        return self._earlier if now is None else max(now, self._earlier or now)\n",
        "        return self._earlier if now is None else now\n",
        (_CLOCK,),
    ),
    Mutant(
        "samzapy/container/event_time/clock.py",
        "        if senders.idle:\n            moved |= self._marks.set_aside(ssp)\n",
        "        if False:\n            moved |= self._marks.set_aside(ssp)\n",
        (_CLOCK,),
    ),
    Mutant(
        "samzapy/container/event_time/clock.py",
        "                self._rule.receive(ssp, now)\n",
        "                pass\n",
        (_CLOCK,),
    ),
    Mutant(
        "samzapy/container/event_time/clock.py",
        "        self._reported = self._told_before(checkpoint.told, back=back)\n",
        "        self._reported = self._stages.current\n",
        (_CLOCK,),
    ),
    Mutant(
        "samzapy/container/event_time/clock.py",
        "        moved = latest >= 0 and self._marks.advance(ssp, latest)\n",
        "        moved = False\n",
        (_CLOCK,),
    ),
    Mutant(
        "samzapy/container/event_time/control_messages.py",
        "max(sum(self._senders_of.values()), len(self.known), 1)",
        "max(len(self.known), 1)",
        (_CLOCK,),
    ),
    Mutant("samzapy/clock.py", "now - at >= self._idle_s", "now - at > self._idle_s", (_MARKS,)),
)

#: The compiled extension.
_NATIVE = (
    Mutant(
        "samzapy/native/entries.c",
        "        Py_XDECREF(entry);\n        if (failed) {\n",
        "        if (failed) {\n",
        ("tests/unit/native/test_native_entries.py",),
    ),
    Mutant("samzapy/native/fetch.c", "messages[end]->topic == first->topic &&", "1 &&", _QUEUES),
    Mutant("samzapy/native/produce.c", "    Py_DECREF(pairs);\n", "", _QUEUES),
    Mutant(
        "samzapy/system/kafka/client.py",
        "if now - since >= _DELETED_S)",
        "if now >= since)",
        ("tests/unit/kafka/test_deleted_topics.py",),
    ),
    Mutant(
        "samzapy/system/kafka/client.py",
        "        self.settled = False\n        if self._clock",
        "        if self._clock",
        ("tests/unit/kafka/test_deleted_topics.py",),
    ),
    Mutant(
        "samzapy/container/lifecycle.py",
        "            raise named from failure\n",
        "            raise\n",
        ("tests/unit/container/inputs/test_deleted_input.py",),
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *_OWNERS,
    *_SYSTEMS,
    *_INPUTS,
    *_STATE,
    *_LOOP,
    *_COMMITS,
    *_OTHERS,
    *_ANSWERED,
    *_ORDER,
    *_TIME,
    *_NATIVE,
)
