# The commands of this repository. `make` alone lists them.

CARGO_TARGET_DIR ?= target
# Absolute paths: tests run in their own crate's folder.
export AGENTGUARD_TEST_VENV ?= $(abspath $(CARGO_TARGET_DIR)/test-venv)
export AGENTGUARD_TEST_NODE ?= $(abspath $(CARGO_TARGET_DIR)/test-node)

.DEFAULT_GOAL := help
.PHONY: help run build test lint bench fmt clean

help: ## list these targets
	@grep -E '^[a-z]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z]+):[^#]*## /  make \1\t/' | expand -t 16

run: ## start the gate (options for it: make run ARGS="--config FILE")
	cargo run --release -p agentguard -- up $(ARGS)

build: ## build the release binary
	cargo build --release -p agentguard

test: ## install what the tests need, lint, and run every test
	@scripts/setup-tests
	@$(MAKE) --no-print-directory lint
	@scripts/run-tests

lint: ## check format, clippy, crate edges and, if cargo-deny is there, licences
	@scripts/lint

bench: build ## measure against what is installed; one part: make bench ARGS=forward
	cargo run --release -p agentguard-bench $(if $(ARGS),-- $(ARGS))

fmt: ## format the code
	cargo fmt --all

clean: ## remove what was built
	cargo clean
