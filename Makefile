# What can be done with this checkout? Everything that a target needs and the machine lacks is installed by it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

export XDG_CACHE_HOME ?= $(HOME)/.cache
CACHE := $(XDG_CACHE_HOME)/spark-operator
export CARGO_TARGET_DIR ?= $(CACHE)/target
CARGO_DENY := $(CACHE)/tools/bin/cargo-deny
CLUSTER := tests/tools/cluster/cluster
RELEASE := $(CARGO_TARGET_DIR)/release
export SPARK ?= 4.0.1
# Nobody goes on with these builds, and what that takes is a third of what they leave. (cargo compiles anew what it has compiled otherwise.)
export CARGO_INCREMENTAL ?= 0
# For the whole workspace, so that the demo's operator and every test program have the same dependencies: see tests/tools/features.
TESTS := --locked --workspace
# The core without extensions, which has the dependencies of the rest.
CORE := $(TESTS) --no-default-features --exclude exploration --exclude spark-operator-batch-schedulers
# How large the operator's image may be, unpacked.
export IMAGE_MB := 40

.PHONY: help machine programs build images check fmt clippy docs lines deny denied manifests release test test-pure core test-cluster test-api test-node repeat explore soak clients bench recordings record demo clean

help: ## Say what the targets do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

build: ## Compile the operator and sparkctl for release
	cargo build --release --locked --bins --package spark-operator --package spark-operator-sparkctl --features spark-operator-sparkctl/upload

images: build ## Build the images and keep them in the cache
	$(CLUSTER) images build --operator-binary $(RELEASE)/spark-operator --at-most $(IMAGE_MB) --spark $(SPARK)

demo: ## Local cluster, operator, SparkPi to COMPLETED, its result
	tests/tools/demo --spark $(SPARK)

check: fmt clippy docs deny lines ## Formatting, lints, documentation, dependencies, lines of code (tests/it/crds.rs compares the generated manifests)

fmt:
	cargo fmt --all --check

clippy:
	cargo clippy $(TESTS) --all-targets -- -D warnings
	cargo clippy $(CORE) --all-targets -- -D warnings

# In the crates of the programs, links to what is private are for those who read the source, and what --help prints has addresses as they
# are.
docs: ## Is the documentation without gaps and broken links?
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --package spark-operator-client --package spark-operator-api
	RUSTDOCFLAGS='-D warnings -A rustdoc::private-intra-doc-links -A rustdoc::bare-urls' cargo doc --locked --no-deps --lib --workspace

lines: ## How much code is there, and how much may there be?
	tests/tools/lines

# What cargo-deny says follows from these files alone, so that it is built and run only where they have changed since it passed.
JUDGED := cat Cargo.lock Cargo.toml crates/*/Cargo.toml tests/exploration/Cargo.toml tests/tools/features/Cargo.toml deny.toml | sha256sum
deny:
	@[ "$$($(JUDGED))" = "$$(cat .ci/denied)" ] || $(MAKE) denied

denied: $(CARGO_DENY)
	$(CARGO_DENY) --locked check --hide-inclusion-graph bans licenses sources
	$(JUDGED) > .ci/denied

$(CARGO_DENY):
	cargo install --locked --root $(CACHE)/tools --version 0.20.2 cargo-deny

CHART := manifests/helm/spark-operator
# The chart has copies, since much that fetches charts drops links.
manifests: ## Write the generated manifests anew
	UPDATE_GOLDEN=1 cargo test $(TESTS) --test it crds::the_committed
	cp manifests/crds/*.yaml $(CHART)/crds/
	cp manifests/rbac/*.yaml $(CHART)/files/
	cp manifests/webhook/applications.yaml manifests/webhook/pods.yaml $(CHART)/files/webhook/
	cp $(CHART)/values.yaml $(CHART)/files/keys.yaml

release: ## Write everything that is published of this commit into the folder TO
	.ci/release $(TO)

test: machine programs test-pure test-cluster test-api test-node ## Every test level

# What the levels need together, since a program more in one build takes seconds, and a build for each level as long as the first. The
# largest crates, all linkers and Java keep one core busy for a while each, so that what is built beside them has the other one.
programs:
	cargo test $(TESTS) --no-run & tests/tools/level programs $(CLUSTER) prepare tests --spark $(SPARK) && wait $$!

test-api test-node repeat clients bench: machine
machine: # Reports everything that this machine lacks for clusters, before anything is compiled.
	@$(CLUSTER) check tests

test-pure: ## Pure functions, golden files, stories, HTTPS on loopback
	tests/tools/level pure tests/tools/pure-level

# In a folder of its own: tests find programs beside themselves, and would find those of the other build.
core: ## The core without extensions: all of its pure tests
	cargo test $(CORE) --target-dir $(CARGO_TARGET_DIR)/core

test-cluster: ## The local cluster's own unit tests, and the recorder's
	tests/tools/level cluster tests/tools/cluster/test_cluster.py
	tests/tools/level recorder tests/tools/record/test_record.py

# Clusters of their own for each level, always new ones: whatever a killed run has left in them is gone.
test-api: ## Against a real API server; the test plays kubelet
	cargo test $(TESTS) --no-run
	$(CLUSTER) build --tests --level api
	SPARK_HOME=$$($(CLUSTER) spark-home --spark $(SPARK)) tests/tools/level api tests/tools/in-clusters api apiserver::

test-node: ## On a real node, where Spark really runs
	cargo test $(TESTS) --no-run
	$(CLUSTER) build --tests --level node --watching
	AXE=$$($(CLUSTER) axe-core) CONNECT_CLIENT=$$($(CLUSTER) connect-client --spark $(SPARK)) tests/tools/level node tests/tools/node-level

# A new test counts once it has passed so often while other tests run: make repeat TEST=apiserver::budget
repeat: ## Run tests against a real API server again and again, TEST=prefix of their names TIMES=20
	cargo test $(TESTS) --no-run
	$(CLUSTER) build --tests --level api
	SPARK_HOME=$$($(CLUSTER) spark-home --spark $(SPARK)) tests/tools/in-clusters repeat $(TEST) $(or $(TIMES),20)

# One trouble more than in CI: some hundred times as many states.
explore: ## All that can happen to applications, schedules and executors of gangs, within wider bounds than in CI
	tests/tools/level explore cargo test --locked --profile harness --package exploration -- --ignored --nocapture

# CI has the oldest one that Kubernetes' own authors still mend. The scheduler has gangs since 1.36.
WITH_GANGS := 1.36.3 1.37.2
NEWER_KUBERNETES := 1.35.4 $(WITH_GANGS)

# What does not fit CI: a target for each part, all of which print results, lines that begin with `soak:`. Parts that have passed for the
# files as they are do not run again. CI's node has one line of Spark, here are others.
PARTS := explore core fuzz spark-lines spark-settings faults measured upgrade gateway release nodes kubernetes gangs prometheus clients
IT := $(TESTS) --offline --test it -- --ignored --nocapture

soak: $(PARTS:%=soak-%) ## Fuzzing, long outages, kills at random moments, certificates replaced all the time, other lines of Spark
	tests/tools/soak

.PHONY: soak-programs $(PARTS:%=soak-%)

soak-programs: machine
	cargo test $(TESTS) --no-run
	$(CLUSTER) build --tests --level node --watching

soak-explore soak-core soak-clients: soak-%:
	tests/tools/soak $* make $*

soak-fuzz:
	tests/tools/soak fuzz tests/fuzz/run

soak-spark-lines: soak-programs
	tests/tools/soak "lines of Spark" cargo test $(IT) soak::spark_lines

soak-spark-settings:
	tests/tools/soak "settings of Spark" tests/tools/spark-settings --check

soak-faults: soak-programs
	LONGEST=7200 SPARK_HOME=$$($(CLUSTER) spark-home --spark $(SPARK)) \
		tests/tools/soak "faults, kills, outages" tests/tools/in-clusters soak soak::faults,soak::kills,soak::outage,soak::switch

# Each in a cluster of its own: beside what the others have left, the API server takes 9 GB and etcd does not answer in time.
soak-measured: soak-programs build
	for test in rotation fairness large tenants due_at_once sparkctl_cost page; do \
		OPERATOR=$(RELEASE)/spark-operator SPARKCTL=$(RELEASE)/sparkctl tests/tools/soak "measured: $$test" tests/tools/in-cluster soak \
			cargo test $(IT) --test-threads=1 soak::$$test; \
	done

soak-upgrade: soak-programs
	PREVIOUS=$$(tests/tools/previous) tests/tools/soak upgrade tests/tools/in-cluster soak cargo test $(IT) soak::upgrade::replicas
	PREVIOUS=$$(tests/tools/previous) tests/tools/soak "upgrade on a node" tests/tools/in-cluster node cargo test $(IT) soak::upgrade::on_a_node

soak-gateway: soak-programs build
	PREVIOUS=$(RELEASE) CONNECT_CLIENT=$$($(CLUSTER) connect-client --spark $(SPARK)) \
		tests/tools/soak gateway tests/tools/in-cluster node cargo test $(IT) --test-threads=1 soak::connect

soak-release:
	tests/tools/soak release tests/tools/same-release

soak-nodes: soak-programs
	for line in 3.5.6 4.1.4; do \
		SPARK=$$line tests/tools/soak "Spark $$line on a node" tests/tools/in-cluster node cargo test $(IT) --test-threads=2 \
			node::native node::submission_pods node::lifecycle::executors_that_a_policy_refuses soak::spark_ui; \
	done
	SPARK=3.5.6 tests/tools/soak "Spark Connect 3.5.6" tests/tools/in-cluster node cargo test $(IT) soak::older_connect
	SPARK=4.1.4 CONNECT_CLIENT=$$($(CLUSTER) connect-client --spark 4.1.4) tests/tools/soak "Spark Connect 4.1.4" tests/tools/in-cluster node \
		cargo test $(IT) --test-threads=1 soak::token node::connect

soak-kubernetes: soak-programs
	for version in $(NEWER_KUBERNETES); do \
		KUBERNETES=$$version SPARK_HOME=$$($(CLUSTER) spark-home --spark $(SPARK)) tests/tools/soak "Kubernetes $$version" \
			tests/tools/in-clusters soak apiserver::installation,apiserver::lifecycle,apiserver::native,apiserver::rights; \
	done
	KUBERNETES=$(lastword $(NEWER_KUBERNETES)) tests/tools/soak "a node of Kubernetes $(lastword $(NEWER_KUBERNETES))" tests/tools/in-cluster node \
		cargo test $(IT) --test-threads=2 node::native node::submission_pods node::tenants

soak-gangs: soak-programs
	for version in $(WITH_GANGS); do \
		KUBERNETES=$$version tests/tools/soak "placeholders in Kubernetes $$version" tests/tools/in-cluster soak cargo test $(IT) soak::placeholders; \
		KUBERNETES=$$version tests/tools/soak "gangs of Kubernetes $$version" tests/tools/in-cluster node cargo test $(IT) soak::gangs; \
	done

soak-prometheus: soak-programs
	PROMETHEUS=$$($(CLUSTER) prometheus) tests/tools/soak "a Prometheus that discovers pods" tests/tools/in-cluster node \
		cargo test $(IT) --test-threads=2 node::monitoring

# Their versions are in tests/tools/clients; what was seen is in docs/user/clients.md.
clients: ## Other programs' own code against this operator, on a node: Airflow's provider, Kubeflow's SDK, Kueue, Argo CD's rules
	cargo test $(TESTS) --no-run
	$(CLUSTER) build --tests --level node
	AIRFLOW=$$($(CLUSTER) python-client airflow) KUBEFLOW_SDK=$$($(CLUSTER) python-client kubeflow-sdk) KUEUE=$$($(CLUSTER) kueue) \
		ARGO_CD_HEALTH=$$($(CLUSTER) argo-cd-health) CONNECT_CLIENT=$$($(CLUSTER) connect-client --spark $(SPARK)) \
		tests/tools/level clients tests/tools/in-cluster node cargo test $(TESTS) --offline --test it -- --ignored --test-threads=1 --nocapture soak::clients

# The operator that is measured is the released one. Results go to bench-results.json as well.
bench: build ## Measure, print a table
	cargo test --locked --profile harness --test it --no-run
	cargo test $(TESTS) --no-run
	$(CLUSTER) build --tests --level api
	OPERATOR=$(RELEASE)/spark-operator SPARK_HOME=$$($(CLUSTER) spark-home --spark $(SPARK)) \
		tests/tools/level bench tests/tools/in-cluster bench cargo test --locked --offline --profile harness --test it -- --ignored --test-threads=1 --nocapture bench:: \
			--skip bench::gangs
	$(CLUSTER) build --tests --level node
	KUBERNETES=$(lastword $(WITH_GANGS)) tests/tools/level "bench: gangs," tests/tools/in-cluster node cargo test $(TESTS) --offline --test it -- --ignored \
		--nocapture bench::gangs

# Any folder of recordings of real submissions: one folder a version with one file a case, or one file a version.
recordings: ## Compare native submission with spark-submit, DIR=folder with recordings
	RECORDINGS=$(abspath $(or $(DIR),tests/data/recordings)) cargo test $(TESTS) --test it -- --nocapture recordings::

# The same cases as those of the recordings that are there, for any version on PyPI.
record: ## Record real submissions, SPARK=version CASES='java-*,vol*' DIR=folder
	tests/tools/record/record --spark $(SPARK) $(if $(CASES),--only '$(CASES)') $(if $(DIR),--to '$(abspath $(DIR))')

clean: ## Stop the local clusters
	for name in spark demo test-{api,repeat,soak}-{1..4} test-node test-node-alone test-soak test-bench; do $(CLUSTER) down --name $$name; done
