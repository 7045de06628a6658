# Two targets do all the set-up on a fresh machine: `make demo` and `make test`.
# The others: `make help`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev
BENCH  := $(VENV)/.installed-bench
DIST   := $(VENV)/.installed-dist
REPORTS := reports
BENCHES := bench-first-paint bench-terminal bench-estimate bench-run bench-latency bench-moves \
           bench-pipeline bench-plan bench-tools bench-timeline bench-documents bench-statelog \
           bench-replicas bench-autopilot bench-rebalances bench-time-left

# What builds trimtab is held to the same versions: older pips read the first, newer the second.
PIP_INSTALL := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
  $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -P -m pytest
# Tests that share nothing but the processor have all of it: each worker has its part of them,
# and one that is done takes over from the others.
SPREAD := -n auto --maxprocesses 4 --dist worksteal
# A Spark of one core leaves the other: two workers, each with its own, a file at a time. Real
# brokers are mostly waited for: three, and the longest files first (tests/kafka/conftest.py).
APART := -n 2 --dist loadfile --no-loadscope-reorder
BROKERS_APART := -n 3 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install dev demo test check lint types imports test-core test-tui test-spark \
        test-kafka test-e2e screenshots screenshots-check docs dist clean $(BENCHES) measurements \
        scenarios chaos laws fuzz

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 28

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, 13)))' \
	  || { echo "trimtab needs Python 3.11 to 3.13; say which: make PYTHON=python3.12 install" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "python3 lacks venv: on Debian and Ubuntu, apt-get install python3-venv" >&2; exit 1; }

$(STAMP): pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing trimtab into $(VENV) (once) …"
	@$(PIP_INSTALL) -e '.[pipeline]'
	@touch $@

$(DEV): $(STAMP)
	@echo "installing what the tests need (once) …"
	@$(PIP_INSTALL) -e '.[pipeline,dev]'
	@touch $@

$(DIST): $(DEV)
	@echo "installing what builds bundles (once) …"
	@$(PIP_INSTALL) -e '.[pipeline,dev,dist]'
	@touch $@

$(BENCH): $(DEV)
	@echo "installing what the benches need (once) …"
	@$(PIP_INSTALL) -e '.[pipeline,dev,bench]'
	@touch $@

install: $(STAMP)  ## .venv with the command trimtab in it; nothing to do when nothing changed
dev: $(DEV)

demo: $(STAMP)  ## real brokers under a skewed load, Spark, and the dashboard on them
	@$(BIN)/trimtab sandbox demo

check: lint types imports  ## the fast part of `make test`
	$(PYTEST) $(SPREAD) -m "not long" tests/core tests/compat tests/fuzz

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

imports: $(DEV)
	$(BIN)/lint-imports --no-cache

test: lint types imports test-core test-tui screenshots-check test-spark test-kafka test-e2e  ## everything a change must pass

test-core: $(DEV)
	$(PYTEST) $(SPREAD) tests/core tests/compat tests/fuzz

test-tui: $(DEV)
	$(PYTEST) $(SPREAD) tests/tui

test-spark: $(DEV)
	$(PYTEST) $(APART) tests/spark

test-kafka: $(DEV)
	$(PYTEST) $(BROKERS_APART) -m "not scenario" tests/kafka

test-e2e: $(DEV)
	$(PYTEST) $(APART) tests/e2e

laws: $(DEV)  ## new examples for every law; the planner's on 10,000 clusters (make test: 50)
	$(PYTEST) $(SPREAD) --hypothesis-profile=new -m hypothesis tests/core
	$(PYTEST) --hypothesis-profile=long tests/core/plan/planner/test_planner_laws.py

screenshots: $(DEV)  ## screenshots/*.svg from the simulated cluster
	PYTHONPATH=tests $(BIN)/python -P -m shots screenshots

screenshots-check: $(DEV)
	PYTHONPATH=tests $(BIN)/python -P -m shots --check screenshots

docs: $(DEV)  ## the pages that are made from the code: keys, commands, run-states, rights, the manual page
	PYTHONPATH=tests $(BIN)/python -P -m keys_page > docs/reference/keys.md
	PYTHONPATH=tests $(BIN)/python -P -m commands_page > docs/reference/commands.md
	PYTHONPATH=tests $(BIN)/python -P -m man_page > docs/reference/trimtab.1
	PYTHONPATH=tests $(BIN)/python -P -m run_states_page > docs/reference/run-states.md
	PYTHONPATH=tests $(BIN)/python -P -m rights_page > docs/rights.md

dist: $(DIST)  ## dist/: wheel, sdist, and bundles of one file, with Spark and without
	rm -rf dist
	$(BIN)/python -P -m hatchling build
	$(BIN)/python -P -m release.bundle dist

bench-first-paint: $(DEV)  ## first paint of the map beside Kafka's TopicCommand, on real brokers
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.first_paint -o $(REPORTS)/first-paint.json

bench-terminal: $(DEV)  ## bytes sent to the terminal: idle, one cell, one row
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.terminal_bytes -o $(REPORTS)/terminal-bytes.json

bench-estimate: $(DEV)  ## estimate beside wall time of a throttled run, on real brokers
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.estimate_against_clock -o $(REPORTS)/estimate.json

bench-run: $(DEV)  ## a throttled run beside Kafka's own tool, on real brokers
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.run_against_tool -o $(REPORTS)/run-beside-tool.json

bench-time-left: $(DEV)  ## the time left that a run tells, against the clock, on real brokers
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.time_left -o $(REPORTS)/time-left.json

bench-latency: $(DEV)  ## what producers wait beside an adaptive run, and beside Kafka's own tool
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.produce_latency -o $(REPORTS)/produce-latency.json

bench-plan: $(DEV)  ## whole plans for clusters of up to 2.8 million replicas: time, memory, bytes, balance
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.plans -o $(REPORTS)/plans.json

bench-documents: $(DEV)  ## saved clusters of up to a million partitions: time to read one
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.documents -o $(REPORTS)/documents.json

bench-moves: $(DEV)  ## 10,000 moves in one run on the simulator: memory, journal, a step
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.many_moves -o $(REPORTS)/many-moves.json

bench-timeline: $(DEV)  ## the timeline: how soon a change is on it, its size, a jump in it
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.timeline -o $(REPORTS)/timeline.json

bench-rebalances: $(DEV)  ## how soon a group's rebalance is on the Groups screen and the timeline, on real brokers
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.rebalances -o $(REPORTS)/rebalances.json

bench-autopilot: $(DEV)  ## months of an autopilot beside a planner with hindsight; SEEDS=5 for some
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.autopilot -o $(REPORTS)/autopilot.json $(if $(SEEDS),--seeds $(SEEDS))

bench-statelog: $(DEV)  ## a million lines of eight brokers' state-change logs merged: time, memory
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.statelog_merge -o $(REPORTS)/statelog-merge.json

bench-replicas: $(DEV)  ## a gigabyte verified on three replicas each, and a flipped byte found, on real brokers
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.replicas_verify -o $(REPORTS)/replicas-verify.json

bench-tools: $(DEV)  ## elect, topics describe and groups beside Kafka's own tools, on real brokers
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.tools -o $(REPORTS)/tools.json

bench-pipeline: $(BENCH)  ## the load pipeline: exactness, accuracy, latency, speed; ONLY="P8 P9" for some; goes on where it was
	@mkdir -p $(REPORTS)
	$(BIN)/python -P -m tests.bench.pipeline -o $(REPORTS)/pipeline.json $(if $(ONLY),--only $(ONLY))

measurements: $(BENCHES)  ## all benches, and docs/reference/measurements.md from them
	$(BIN)/python -P -m tests.bench.measurements $(REPORTS) -o docs/reference/measurements.md

scenarios: $(DEV)  ## situations that must work, at length on real brokers: expected beside seen
	$(BIN)/python -P -m tests.acceptance
	$(PYTEST) -m scenario tests/kafka

fuzz: $(DEV)  ## 10,000 damaged files of each kind: read, or refused in a sentence; INPUTS=500, ONLY="plans"
	@mkdir -p $(REPORTS)
	PYTHONPATH=tests $(BIN)/python -P -m fuzz --inputs $(or $(INPUTS),10000) \
	  $(if $(ONLY),--only $(ONLY)) -o $(REPORTS)/fuzz.json

scenario-%: $(DEV)  # one of them, like scenario-leader-return
	$(BIN)/python -P -m tests.acceptance $*

chaos: $(DEV)  ## kill runs everywhere, on the simulator and real brokers; goes on where it was
	@mkdir -p $(REPORTS)
	PYTHONPATH=tests $(BIN)/python -P -m chaos -o $(REPORTS)

clean:  ## remove what the targets made
	rm -rf $(VENV) $(REPORTS) build dist .mypy_cache .ruff_cache .hypothesis
