# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
#
#   make demo    build, then the driver's main job on an embedded one-node stand-in, with real pinned processes
#   make test    build, then every test that needs no cluster
#   make e2e     real Kubernetes on this machine, then the end-to-end suite (needs root and Go 1.26)
#   make chaos   the fault suite: crashes at every effect, failing disk and neighbours, two drivers (CHAOS_SCHEDULES,
#                CHAOS_KILLS, CHAOS_ROUNDS, CHAOS_PARTS; CHAOS_SEED runs one again)
#   make image   build the driver and pack it as an OCI archive; ARCH=arm64 does it for that architecture
#   make manifests  the chart as one manifest, dist/dracpu.yaml (HELM_FLAGS="--set image.repository=REGISTRY/dracpu")
#   make check   formatting, tidy, header check, sanitizers: what CI runs besides
#   make bench   benchmarks: medians and p99
#   make fuzz    every fuzz target for FUZZ_SECONDS (default 60)

MACHINE := $(shell dpkg --print-architecture)
# Only as an argument of make: environments set a variable of this name for the kernel.
ARCH := $(MACHINE)
CROSS := $(filter-out $(MACHINE),$(ARCH))
PRESET ?= release$(CROSS:%=-%)
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
CHAOS_SCHEDULES ?= 10000
CHAOS_KILLS ?= 300
CHAOS_ROUNDS ?= 1000
CHAOS_PARTS ?= ABC
CHAOS_SEED ?=
BUILD := build/$(PRESET)

export CCACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dracpu/ccache
# Relative paths in the cache, so that another clone finds what this one compiled.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)

.PHONY: all build demo test e2e e2e-smoke chaos check format format-check tidy headers asan tsan bench fuzz image manifests \
  setup clean
all: build

setup:
	@tools/setup $(or $(CROSS),build)

build: setup
	@cmake --preset $(PRESET) >build-$(PRESET).log 2>&1 || { cat build-$(PRESET).log; rm -f build-$(PRESET).log; exit 1; }
	@rm -f build-$(PRESET).log
	cmake --build --preset $(PRESET) $(TARGET)

demo: build
	$(BUILD)/bin/dracpu-demo --driver $(BUILD)/bin/dracpu

test: build
	@tools/run-tests $(PRESET)

e2e: build
	test/e2e/run --tier full --driver $(BUILD)/bin/dracpu

e2e-smoke: build
	test/e2e/run --tier smoke --driver $(BUILD)/bin/dracpu

chaos: build
	$(BUILD)/bin/dracpu-chaos --driver $(BUILD)/bin/dracpu --schedules $(CHAOS_SCHEDULES) --kills $(CHAOS_KILLS) \
	  --rounds $(CHAOS_ROUNDS) --parts $(CHAOS_PARTS) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED))

check: format-check headers asan tsan tidy

format:
	git ls-files '*.cc' '*.h' | xargs clang-format-16 -i

format-check:
	@tools/setup check
	git ls-files '*.cc' '*.h' | xargs clang-format-16 --dry-run --Werror
	tools/chart --check

headers: build
	cmake --build --preset $(PRESET) --target headers

asan tsan: setup
	@cmake --preset $@ >/dev/null
	cmake --build --preset $@
	@tools/run-tests $@

tidy:
	@tools/setup check
	@tools/tidy

bench: build
	@for b in $(BUILD)/bin/*_bench; do echo "== $$b"; $$b --benchmark_repetitions=5 --benchmark_report_aggregates_only=true; done

fuzz:
	@tools/setup check
	@cmake --preset fuzz >/dev/null
	cmake --build --preset fuzz
	@tools/fuzz $(FUZZ_SECONDS)

image: TARGET := --target dracpu
image: build
	deploy/image/build --binary $(BUILD)/bin/dracpu --output build/dracpu-image$(CROSS:%=-%).tar --name localhost/dracpu:dev

manifests:
	@tools/manifests $(HELM_FLAGS)

clean:
	rm -rf build
