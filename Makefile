# `make` lists the targets. Each does its own set-up; Go, make and git are all
# it takes.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

MODULE  := github.com/etcd-selfhost/etcd-selfhost
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
ARGS    ?=
BENCH   ?=

# Where binaries built from other projects' sources are kept, and where
# bin/bootstrap and the tests look for them.
ETCD_SELFHOST_CACHE := $(abspath $(or $(ETCD_SELFHOST_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/etcd-selfhost))
export ETCD_SELFHOST_CACHE

# The version is stamped below, so git is not asked a second time.
BUILD_FLAGS := -trimpath -buildvcs=false -ldflags "-s -w -X $(MODULE)/pkg/selfhost/version.Version=$(VERSION)"

STATICCHECK := bin/tools/staticcheck
CONTROLLER_GEN := bin/tools/controller-gen

# $(call packages,DIR...): the patterns of those folders that are there; go
# refuses a pattern whose folder is not.
packages = $(foreach d,$(1),$(if $(wildcard $(d)),./$(d)/...))

##@ Build

.PHONY: build
build: ## static bin/bootstrap and bin/operator
	CGO_ENABLED=0 go build $(BUILD_FLAGS) -o bin/bootstrap ./cmd/bootstrap
	CGO_ENABLED=0 go build $(BUILD_FLAGS) -o bin/operator ./cmd/operator

.PHONY: clean
clean: ## remove bin/ and raw benchmark output; the cache of built binaries stays
	rm -rf bin bench/raw

##@ See it work

.PHONY: demo
demo: build binaries-kube ## seed, pivot and more under a real kube-apiserver (ARGS='--size-mb 100')
	bin/bootstrap demo $(ARGS)

.PHONY: demo-quick
demo-quick: build ## the same on etcd alone, half a minute after compiling (ARGS=...)
	bin/bootstrap demo --no-apiserver $(ARGS)

##@ Test

# What goes through other binaries is never taken from go's cache of results,
# which knows nothing of them, and one package at a time has the machine.
.PHONY: test
test: build binaries-etcd binaries-kube ## units, stories, simulation and integration
	go test $(call packages,pkg cmd test/sim)
	$(if $(wildcard test/integration),go test -count=1 -p 1 ./test/integration/...)

.PHONY: cases
cases: build binaries-etcd-all binaries-kube ## accidents and field cases on real etcd
	go test -tags cases -count=1 -p 1 -timeout 40m ./test/cases/...

.PHONY: sweep
sweep: build binaries-etcd-all binaries-kube ## everything, at full length (up to an hour)
	go test -tags sweep -count=1 -p 1 -timeout 60m ./...

.PHONY: bench
bench: build binaries-etcd binaries-kube ## measure; BENCH=NAME for one subject alone
	go run ./test/bench $(BENCH)

.PHONY: binaries-etcd binaries-etcd-all binaries-kube
binaries-etcd:
	@test/kube/ensure etcd v3.7.3 >/dev/null

binaries-etcd-all:
	@for v in $$(test/kube/ensure versions etcd); do test/kube/ensure etcd "$$v" >/dev/null; done

binaries-kube:
	@test/kube/ensure kube >/dev/null

##@ Check

# Files with build tags are looked at too. The import fences are the tests
# named Test...Fence...; that there are some is part of the check.
.PHONY: lint
lint: $(STATICCHECK) ## gofmt, go vet, staticcheck and the import fences
	@bad=$$(gofmt -l .); if [[ -n $$bad ]]; then echo "not formatted (make generate):"; echo "$$bad"; exit 1; fi
	go vet ./...
	go vet -tags cases,sweep ./...
	$(STATICCHECK) -tags cases,sweep ./...
	@fenced=$$({ grep -rlE --include='*_test.go' '^func Test\w*Fence' $(wildcard pkg cmd test) || [[ $$? == 1 ]]; } | xargs -r dirname | sort -u | sed 's|^|./|'); \
	if [[ -z $$fenced ]]; then echo "no import fence test found"; exit 1; fi; \
	echo "go test -run Fence" $$fenced; go test -run Fence $$fenced

# Its dependencies stay out of the main module. Where go made nothing new, the
# file is left alone.
.PHONY: $(STATICCHECK)
$(STATICCHECK):
	@go build -C test/tools -mod=readonly -buildvcs=false -o $(CURDIR)/$@ honnef.co/go/tools/cmd/staticcheck

.PHONY: $(CONTROLLER_GEN)
$(CONTROLLER_GEN):
	@go build -C test/controllergen -mod=readonly -buildvcs=false -o $(CURDIR)/$@ sigs.k8s.io/controller-tools/cmd/controller-gen

.PHONY: generate
generate: $(CONTROLLER_GEN) ## everything that is made from something else: go generate, gofmt, go mod tidy
	go generate ./...
	gofmt -w .
	go mod tidy
	go -C test/tools mod tidy
	go -C test/controllergen mod tidy

.PHONY: verify
verify: ## that generate would change nothing, tried on a copy
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir "$$tmp/have"; \
	git ls-files -z --cached --others --exclude-standard | \
		while IFS= read -r -d '' f; do if [[ -e $$f || -L $$f ]]; then printf '%s\0' "$$f"; fi; done | \
		tar --null -T - -cf - | tar -xf - -C "$$tmp/have"; \
	cp -a "$$tmp/have" "$$tmp/want"; \
	$(MAKE) -C "$$tmp/want" generate; \
	if ! (cd "$$tmp" && diff -Nru --exclude=bin have want); then echo "out of date: run make generate"; exit 1; fi; \
	echo "verify: all up to date"

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile
