# make check   the gate: format, lint, types (two checkers), imports between rooms, rules of the house
# make fast ROOM=log   one room in seconds: lint, imports between rooms, its pure tests (no ROOM: the list)
# make unit    the pure tests: no process, no socket
# make test    every test but the long ones        make soak   the long ones
# make demo    the main job, end to end (KAFKA=apache: on brokers of Apache Kafka)
# make kernel  compile the walk over records that brokers check batches with (needs a C compiler)
# make paper   the tables of the Kafka paper: five brokers in turns (ARGS="--messages 1000000"; hours without)
# make lock    take newer versions of the dependencies into deploy/requirements*.txt, with hashes
#                                                  (UPGRADE=: only what is new in pyproject.toml)
# make spark-package  a Python with Tallymark in it, for spark-submit --archives: build/tallymark-spark.tar.gz
# make spark-image    the image of driver and executors on Kubernetes (needs docker)
# make screenshots  each page of the dashboards, light and dark, into docs/images (needs Chromium)
# make sbom    what is in it, for scanners: build/sbom.cdx.json (CycloneDX)

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# Nothing is installed that has not the hash of its lock, and nothing is fetched to build it.
PINNED := $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-build-isolation
LOCK := $(BIN)/uv pip compile -q $(UPGRADE) --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
UPGRADE ?= --upgrade
ONCE ?=
SEED ?=
FAULT ?= cut-tail
INPUT ?=
KAFKA ?=
ARGS ?=
ROOM ?=

# Each of a test run's thousands of processes would compile all modules again.
export PYTHONDONTWRITEBYTECODE =

.PHONY: check test unit fast soak demo lock sbom spark-package spark-image java others clean format kernel paper screenshots

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python deploy/house_rules.py
	@echo "mypy and pyright, each on a processor of its own"
	@$(BIN)/pyright & other=$$!; $(BIN)/mypy; mine=$$?; wait $$other && exit $$mine

# A worker that died fails the run. When it was replaced, a run once waited at 99 % without an end.
# Three of 16,000 tests may pass at the second try; the run prints what failed at the first (CONTRIBUTING.md).
test: $(VENV)/.dev others
	$(PYTEST) -n 4 --reruns 1 --max-suite-reruns 3 --rerun-show-tracebacks --max-worker-restart=0 --dist loadfile --no-loadscope-reorder --durations=20 -m "not soak"

unit: $(VENV)/.dev
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-fast} $(PYTEST) -n 2 --dist loadfile -m "not soak and not process and not spark and not apache_kafka and not socket and not database and not slow"

fast: $(VENV)/.dev
	@$(BIN)/python deploy/fast.py $(ROOM)

soak: $(VENV)/.dev others
	$(PYTEST) -m soak --timeout=7200

demo: $(VENV)/.run java
	$(BIN)/tallymark demo $(if $(ONCE),--once) $(if $(SEED),--seed $(SEED)) --fault $(FAULT) $(if $(INPUT),--input $(INPUT)) $(if $(KAFKA),--kafka $(KAFKA))

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

java:
	@deploy/ensure-java

# Other people's clients that pip does not bring, PostgreSQL and Apache Kafka.
others: $(VENV)/.dev java
	@deploy/ensure-kcat
	@deploy/ensure-chromium
	@deploy/ensure-axe
	@deploy/ensure-postgresql
	@deploy/ensure-promtool $(VENV)
	@deploy/ensure-java-clients
	@deploy/ensure-apache-kafka $(BIN)/python
	@deploy/ensure-spark-connector $(BIN)/python

kernel: $(VENV)/.dev deploy/requirements-kernel.txt
	$(PINNED) -r deploy/requirements-kernel.txt
	$(BIN)/python deploy/build_kernel.py

paper: $(VENV)/.dev deploy/requirements-bench.txt
	@deploy/ensure-message-brokers
	@deploy/ensure-apache-kafka $(BIN)/python
	$(PINNED) -r deploy/requirements-bench.txt
	$(BIN)/python bench/paper.py $(ARGS)

lock: $(VENV)/.dev
	$(LOCK) --group build -o deploy/requirements-build.txt
	$(LOCK) pyproject.toml --extra all -o deploy/requirements.txt
	$(LOCK) pyproject.toml --extra all --group dev -c deploy/requirements.txt -o deploy/requirements-dev.txt
	$(LOCK) --group kernel -c deploy/requirements-build.txt -c deploy/requirements-dev.txt -o deploy/requirements-kernel.txt
	$(LOCK) --group bench -c deploy/requirements-dev.txt -o deploy/requirements-bench.txt

sbom: $(VENV)/.dev
	$(BIN)/python deploy/sbom.py build/sbom.cdx.json

screenshots: $(VENV)/.dev others
	$(BIN)/python tests/support/dashboards/screenshots.py docs/images

spark-package: $(VENV)/.dev
	$(BIN)/python deploy/spark_package.py build/tallymark-spark.tar.gz

spark-image:
	docker build -f deploy/Dockerfile -t tallymark .
	docker build -f deploy/spark/Dockerfile -t tallymark-spark .

$(VENV)/bin/python:
	@deploy/ensure-venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python deploy/requirements-build.txt deploy/requirements.txt pyproject.toml
	@echo "installing the pinned Python packages into $(VENV): 1.1 GB, PySpark most of it; about a minute"
	$(PINNED) -r deploy/requirements-build.txt
	$(PINNED) -r deploy/requirements.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-index --no-build-isolation -e .
	@deploy/vendor
	@touch $@

$(VENV)/.dev: $(VENV)/.run deploy/requirements-dev.txt
	@echo "installing what the checks and tests need into $(VENV): 0.4 GB; less than a minute"
	$(PINNED) -r deploy/requirements-dev.txt
	@touch $@

clean:
	rm -rf $(VENV) .tallymark .mypy_cache .ruff_cache .pytest_cache .hypothesis
