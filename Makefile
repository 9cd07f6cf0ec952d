# make check   the gate: format, lint, types (two checkers), imports between rooms
# make test    every test but the long ones       make unit   the fast, pure ones
# make soak    the long ones                       make demo   the main job, end to end
#                                                  (KAFKA=apache: on brokers of Apache Kafka)
# make lock    take newer versions of the dependencies into deploy/requirements*.txt

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
ONCE ?=
SEED ?=
FAULT ?= cut-tail
INPUT ?=
KAFKA ?=

.PHONY: check test unit soak demo lock java others clean format

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pyright

test: $(VENV)/.dev java others
	$(PYTEST) -n 2 --dist loadfile -m "not soak"

unit: $(VENV)/.dev
	$(PYTEST) -n 2 --dist loadfile -m "not soak and not process and not spark and not apache_kafka"

soak: $(VENV)/.dev java others
	$(PYTEST) -m soak --timeout=7200

demo: $(VENV)/.run java
	$(BIN)/tallymark demo $(if $(ONCE),--once) $(if $(SEED),--seed $(SEED)) --fault $(FAULT) $(if $(INPUT),--input $(INPUT)) $(if $(KAFKA),--kafka $(KAFKA))

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

java:
	@deploy/ensure-java

# Other people's clients that pip does not bring, PostgreSQL and Apache Kafka.
others:
	@deploy/ensure-kcat
	@deploy/ensure-chromium
	@deploy/ensure-postgresql
	@deploy/ensure-java-clients
	@deploy/ensure-apache-kafka $(BIN)/python

lock: $(VENV)/.dev
	$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 pyproject.toml --extra all --no-header --no-annotate -o deploy/requirements.txt
	$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 pyproject.toml --extra all --group dev --no-header --no-annotate -c deploy/requirements.txt -o deploy/requirements-dev.txt

$(VENV)/bin/python:
	@deploy/ensure-venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python deploy/requirements.txt pyproject.toml
	@echo "installing the pinned Python packages into $(VENV): 0.9 GB, PySpark most of it; about a minute"
	$(BIN)/python -m pip install -q --disable-pip-version-check -r deploy/requirements.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@deploy/vendor
	@touch $@

$(VENV)/.dev: $(VENV)/.run deploy/requirements-dev.txt
	@echo "installing what the checks and tests need into $(VENV): 0.4 GB; less than a minute"
	$(BIN)/python -m pip install -q --disable-pip-version-check -r deploy/requirements-dev.txt
	@touch $@

clean:
	rm -rf $(VENV) .tallymark .mypy_cache .ruff_cache .pytest_cache .hypothesis
