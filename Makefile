# Everything that a developer or CI does. `make help` lists it.
.DEFAULT_GOAL := help
.PHONY: help build check test test-all beyond unit e2e peers gitops faults sim judge chaos demo lab bench-failover bench-plan bench-devices bench-headroom bench-rest bench-scale mutants cargo-mutants soak fuzz generate clean \
	image image-base image-twice image-test book links release-dry

CARGO ?= cargo
# e2e tests at the same time: six a core, and no more than there is memory for. Each has a cluster of 1 GiB to itself, and leaves its API server to the
# next test when all went well. One that finds the machine busy waits for its turn (e2e/src/load.rs).
E2E_THREADS ?= $(shell awk -v cores="$$(nproc)" '/^MemAvailable/ {gib = int($$2 / 1048576) - 2} \
	END {most = 6 * cores; if (gib < most) most = gib; print most < 2 ? 2 : most}' /proc/meminfo)
# The other tests at the same time: most of them wait for a device's time to be over.
UNIT_THREADS ?= 16
# Seeds of the simulation that `soak` plays.
SOAK_SEEDS ?= 50000
# How long `fuzz` runs each of its targets, in seconds. (`test` gives each 10 s, unless the environment says otherwise by the same name.)
FUZZ_SECONDS ?= 600
# How many deaths `chaos` has, and on nodes of which kind.
CYCLES ?= 20
KIND ?= simulated
# What `image` builds: the Dockerfile's target operator, or agents. And what `image-base` makes: builder, or agents.
TARGET ?= operator
BASE ?= builder
# Which Kubernetes a lab has, such as 1.35: `make e2e KUBERNETES=1.35`. The newest unless it is named.
KUBERNETES ?=
export KUBERNETES
# Those that `test-all` tries beside it, of which one is newer.
OLDER_KUBERNETES = 1.37 1.35 1.34 1.33 1.32 1.31 1.30
# Further arguments of `lab` and the benchmarks: make lab ARGS="--kind real --times stock", make bench-failover ARGS="--runs 3 --times tuned",
# make bench-devices ARGS="--only status".
ARGS ?=

# Where cargo is quiet, because what is printed is the result, a first build tells of itself: $(call first,FILE,WHAT)
first = ls $(or $(CARGO_TARGET_DIR),target)/debug/$(1) >/dev/null 2>&1 || echo "Building $(2): the first time takes minutes, in silence ..." >&2

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

build: ## Build the operator (release, and debug for the lab) and the lab's control plane
	$(CARGO) build --release --bins
	$(CARGO) build --package node-fencing-operator --bins
	$(CARGO) run --quiet --package e2e --bin lab -- build

# What a debug build makes.
DEBUG = $(abspath $(or $(CARGO_TARGET_DIR),target)/debug)

# Says what it took, and writes it down: `hack/measure --times` shows the last of each.
STAGE = hack/stage

check: ## What a change needs within minutes: format, lints, decision, drivers, 50 seeds, a dozen tests on a real control plane
	@$(STAGE) format $(CARGO) fmt --all --check
	@$(STAGE) lints $(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	@$(STAGE) core $(CARGO) test --quiet --package fencing-core -- --test-threads=$(UNIT_THREADS)
	@$(STAGE) drivers $(CARGO) test --quiet --package fencing-drivers --lib --test drivers -- --test-threads=$(UNIT_THREADS)
	@SEEDS=600..650 $(STAGE) simulation $(CARGO) test --quiet --package node-fencing-operator --test sim seeds
	@$(STAGE) e2e-build sh -c '$(E2E_BUILD)'
	@GOMAXPROCS=1 $(STAGE) e2e-dozen $(E2E) --quiet -- --test-threads=$(E2E_THREADS) --exact $(E2E_DOZEN)

test: unit e2e ## Run every test: format, lints, unit, golden, API, end to end

unit: ## Format, lints, and the tests that need no cluster
	@$(STAGE) format $(CARGO) fmt --all --check
	@$(STAGE) lints $(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	@$(STAGE) unit-build $(CARGO) test --workspace --no-run --quiet
	@$(STAGE) unit $(CARGO) test --workspace --lib --bins --test '[!e]*' --quiet -- --test-threads=$(UNIT_THREADS)

# `--workspace`: with the features that the other tests have, or most dependencies would be compiled once more. The operator has its own alone.
E2E = $(CARGO) test --workspace --test e2e

# A dozen of the e2e tests: each phase of a fence with its most likely disturbance.
E2E_DOZEN = power_cut::simulated_node_power_cut_moves_the_volume hung_kubelet::simulated_node_with_a_hung_kubelet_is_turned_off \
	partition::simulated_node_partition_is_left_alone power_on::simulated_node_powered_on_while_claimed \
	power_on::simulated_node_powered_on_while_tainted delete_node::simulated_node_is_deleted_and_its_volume_moves \
	other_hands::a_human_who_removes_our_taint_ends_the_incident other_hands::a_node_that_a_human_put_out_of_service_is_left_to_them \
	human_word::word_is_refused_while_a_device_reads_on policies::a_human_denies_one_fence_and_leaves_two_without_an_answer \
	ipmi::power_cut_moves_the_volume_by_ipmi_sim levels::dark_bmc_gives_way_to_the_outlets_of_both_supplies
E2E_BUILD = $(E2E) --quiet --no-run && $(CARGO) build --quiet --package node-fencing-operator --bins && $(DEBUG)/lab build

# A hundred nodes that die at once need the cores for themselves: beside a dozen other clusters etcd answers so late that any leader loses its Lease.
E2E_STORMS = all_at_once::ninety_nodes_die_at_once_and_the_leader_keeps_its_lease \
	all_dark::nodes_die_in_a_dark_network_and_are_out_of_service_when_it_is_back

# With a dozen clusters on a few cores a Go program has no second core to look for: GOMAXPROCS=1 saves a tenth of the CPU time.
e2e: ## The tests on a real control plane (LAB_REQUIRE_REAL=1: fail where real nodes cannot be had)
	@$(STAGE) e2e-build sh -c '$(E2E_BUILD)'
	@rm -f target/lab/skipped target/lab/rights
	@$(STAGE) e2e-storms $(E2E) -- --test-threads=1 --nocapture --exact $(E2E_STORMS)
	@GOMAXPROCS=1 $(STAGE) e2e $(E2E) -- --test-threads=$(E2E_THREADS) $(addprefix --skip ,$(E2E_STORMS)); status=$$?; \
	if [ -s target/lab/skipped ]; then cat target/lab/skipped; echo "SKIPPED tests: $$(wc -l < target/lab/skipped)"; fi; \
	if [ $$status = 0 ]; then $(DEBUG)/lab rights; status=$$?; fi; \
	exit $$status

# Each has a second cluster or a service of Python or Go beside its own: a minute each, which CI has no time for, and CSI-Addons minutes to build.
peers: ## Each provider that has a peer here and is not in `e2e`: EC2, a fence agent, libvirt, KubeVirt, Metal3 (also on Ironic), CSI-Addons
	@$(STAGE) e2e-build sh -c '$(E2E_BUILD)'
	@rm -f target/lab/skipped
	@GOMAXPROCS=1 $(STAGE) peers $(E2E) -- --ignored --test-threads=$(E2E_THREADS) peers::; status=$$?; \
	if [ -s target/lab/skipped ]; then cat target/lab/skipped; fi; \
	exit $$status

# Flux and Argo CD take minutes to build, the first time.
gitops: ## The charts by Flux and Argo CD: their own controllers install, upgrade, prune and remove them
	@$(STAGE) e2e-build sh -c '$(E2E_BUILD)'
	@GOMAXPROCS=1 $(STAGE) gitops $(E2E) -- --ignored --test-threads=$(E2E_THREADS) gitops::

# What `test-all` adds is bounded: `soak`, `fuzz` and `chaos` by themselves go as far as they are told.
test-all: test beyond ## Everything: also the older versions of Kubernetes, further providers, the image, large clusters, an hour of soak, fuzz and chaos

beyond: ## What `test-all` has beside `test`
	@for version in $(OLDER_KUBERNETES); do \
		KUBERNETES=$$version GOMAXPROCS=1 $(STAGE) kubernetes-$$version $(E2E) -- \
			--test-threads=$(E2E_THREADS) --exact $(E2E_DOZEN) || exit 1; \
	done
	@+$(MAKE) peers
	@+$(MAKE) gitops
	@+$(STAGE) bench-scale $(MAKE) bench-scale NODES=200,5000
	@+$(STAGE) chaos $(MAKE) chaos SEED=$(or $(SEED),11) CYCLES=$(CYCLES)
	@+$(STAGE) fuzz $(MAKE) fuzz FUZZ_SECONDS=60
	@+SOAK_STATES=20000000 $(STAGE) soak $(MAKE) soak SOAK_SEEDS=5000
	@+$(STAGE) deny hack/deny bans licenses sources
	@+$(STAGE) image $(MAKE) image-base image-test BUILDER=node-fencing-builder
	@+$(STAGE) image-agents $(MAKE) image-base image-test BASE=agents TARGET=agents BUILDER=node-fencing-builder AGENTS_BASE=node-fencing-agents-base

# The tests that the grid names are run by `test`.
faults: ## The grid of docs/faults.md, and its lists: every write, everything that is watched
	@$(call first,deps/sim-*,the grid of faults and the simulation)
	@$(CARGO) test --quiet --package node-fencing-operator --test contract faults -- --nocapture
	@$(CARGO) test --quiet --package node-fencing-operator --test sim -- --nocapture matrix::

sim: ## The story of one seed of the simulation: make sim SEED=7 (DETAIL=1: requests too; RUST_LOG=info: the operator's log)
	@$(call first,deps/sim-*,the simulation)
	@SEED=$(or $(SEED),$(error say which: make sim SEED=7)) $(CARGO) test --quiet --package node-fencing-operator --test sim -- --nocapture timeline

judge: ## Judge the records of an e2e test: make judge RUN=target/lab/run/NAME-PID-N
	@$(call first,judge,the judge)
	@$(CARGO) run --quiet --package e2e --bin judge -- $(or $(RUN),$(error say which: make judge RUN=target/lab/run/NAME-PID-N))

chaos: ## CYCLES=20 deaths of nodes (KIND=real: real ones) with operators and BMCs failing at random, judged; SEED=n for the same fates again
	$(CARGO) build --package node-fencing-operator --bins
	$(CARGO) run --quiet --package e2e --bin lab -- chaos --cycles $(CYCLES) --kind $(KIND) $(addprefix --seed ,$(SEED))

# One build for both: apart, they would compile half of their dependencies twice, with other features. So the lab is told which operator to take.
demo: ## Cut a node's power and watch its volume move
	$(CARGO) build --package node-fencing-operator --package e2e --bin node-fencing-operator --bin lab
	NODE_FENCING_OPERATOR=$(DEBUG)/node-fencing-operator $(DEBUG)/lab demo

lab: ## Leave a cluster with the operator up, and cut its machines' power at a prompt
	$(CARGO) build --package node-fencing-operator --bins
	$(CARGO) run --quiet --package e2e --bin lab -- up $(ARGS)

# `--times fast` is what tests have, `--kind simulated,real` both kinds of node, `--early` a policy with early detection, too.
bench-failover: ## Power loss to Running elsewhere, split by stage, with Kubernetes' own and with tuned times, and without the operator (an hour)
	$(CARGO) build --quiet --release --package node-fencing-operator --bins
	$(CARGO) run --quiet --release --package e2e --bin lab -- bench-failover $(ARGS)

bench-plan: ## What `kubectl fence plan` predicts, and when each pod runs again: the median error has to be a quarter at most (5 power cuts)
	$(CARGO) build --quiet --package node-fencing-operator --bins
	$(CARGO) run --quiet --package e2e --bin lab -- build
	$(CARGO) test --quiet --package e2e --test e2e -- --ignored --nocapture plugin::plan::times::

bench-devices: ## 100 BMCs turned off by one process, one status; fence_ipmilan and ipmitool beside it
	$(CARGO) build --quiet --release --package node-fencing-operator --bins
	$(CARGO) bench --quiet --package node-fencing-operator --bench devices -- $(ARGS)

bench-headroom: ## What it costs to judge whether the pods of each of 5,000 nodes would find room elsewhere
	$(CARGO) bench --quiet --package node-fencing-operator --bench headroom

bench-rest: ## What 1,000 devices at rest cost the operator, on a lab
	$(CARGO) build --quiet --release --package node-fencing-operator --bins
	$(CARGO) run --quiet --release --package e2e --bin lab -- bench-rest

# NODES=200 for one size; ARGS="--profile DIRECTORY" for perf's profile of each storm.
bench-scale: ## One fence and storms of 90 and 300 in clusters of NODES=200,5000 nodes: times, CPU, memory, requests (some 20 minutes)
	$(CARGO) build --quiet --release --package node-fencing-operator --bins
	$(CARGO) run --quiet --release --package e2e --bin lab -- bench-scale $(addprefix --nodes ,$(NODES)) $(ARGS)

MUTANTS = nice $(CARGO) test --package node-fencing-operator --test mutants -- --ignored --nocapture --exact

mutants: ## Remove each guard of the protocol in a copy: a test must catch it (slow; ONLY='S9|jobs.rs' for some)
	$(MUTANTS) every_mutant_is_caught

cargo-mutants: ## What cargo-mutants (which you install) changes in FILES="crates/core/src/taint.rs ..."; a survivor needs a reason in tests/mutants/survivors.txt (slow)
	FILES="$(FILES)" $(MUTANTS) cargo_mutants::every_mutant_of_cargo_mutants_is_caught_or_has_a_reason

# With debug assertions and overflow checks, as `make test` has them. A case of the property that is skipped is 2,880 looks at the clock: a million
# of them would take days, and `make test` has 200.
soak: ## The model (up to 8.5 GB, two rows at a time; SOAK_STATES=20000000 for less), the simulation (SOAK_SEEDS=50000) and the properties, each far beyond what every test has time for (hours)
	CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
	$(CARGO) test --release --package fencing-core --test model -- --ignored --nocapture
	CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true PROPTEST_CASES=1000000 \
	$(CARGO) test --release --lib --test golden -- properties:: any_answers:: --skip minute_by_minute
	CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true SEEDS=0..$(SOAK_SEEDS) \
	$(CARGO) test --release --package node-fencing-operator --test sim seeds -- --nocapture

fuzz: ## Each fuzz target for FUZZ_SECONDS=600 by libFuzzer, which needs a C++ compiler (`test` runs them too, without coverage)
	@printf '%s\n' $(notdir $(basename $(wildcard fuzz/targets/*.rs))) | xargs -P "$$(nproc)" -I TARGET \
		sh -c 'echo "fuzz: TARGET, $(FUZZ_SECONDS) s"; fuzz/run TARGET $(FUZZ_SECONDS)'

# docs/image.md has what these take: BUILDER, PLATFORM, CONTAINER_TOOL and others go through the environment.
image: ## The operator's image, into target/image, by docker, podman or buildah (TARGET=agents: with fence agents)
	image/build $(TARGET)

image-base: ## Without an image registry: what the image is built in, of Debian's packages and this machine's Rust (BASE=agents: what the agents run on)
	image/base $(BASE)

image-twice: ## Build the image twice from nothing: it has to be the same
	image/twice

image-test: ## Build the image, look into it, and have a fence go through from inside it on the lab's control plane (minutes; TARGET=agents: the other one)
	image/build $(TARGET)
	$(CARGO) run --quiet --package e2e --bin lab -- build
	NODE_FENCING_IMAGE=$(CURDIR)/target/image/$(TARGET).tar $(CARGO) test --package e2e --test e2e -- --ignored --nocapture image::$(TARGET)::

generate: ## Rewrite the generated files (crds/, golden answers, the chart's, docs/reference)
	UPDATE=1 $(CARGO) test --quiet

book: ## Render docs/ as HTML to target/book, and follow its links within the book (the first time it builds mdBook, some minutes)
	hack/book

links: ## Ask for every page of another site that the documents link to (by curl; `test` does not, it needs the Internet)
	hack/links

release-dry: ## The steps of a release, without what needs a network, a key or a registry
	hack/release --dry-run all

clean: ## Remove everything that was built
	$(CARGO) clean
	@rm -rf fuzz/target fuzz/found fuzz/artifacts
