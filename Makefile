# samplerd: GNU make, no configure step, output in build/.
#   make deps run     install what is missing, build, serve on 127.0.0.1:8090
#   make deps test    install what is missing, build, pass every test

BUILD      ?= build
PREFIX     ?= /usr/local
DESTDIR    ?=
CFLAGS     ?= -O3 -g
PYTHON     ?= python3
PKG_CONFIG ?= pkg-config

VERSION  := $(shell cat VERSION)
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith
ifdef CI
WARNINGS += -Werror
endif

# IEEE semantics, and no fused multiply-add but those written as fmaf(): the same bits everywhere.
EXACT := -ffp-contract=off -fno-fast-math

# What is compiled for which machine: one source of kernels, once per instruction set.
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null || uname -m)
ifneq (,$(findstring x86_64,$(MACHINE)))
TABLES := generic avx2 avx512
else ifneq (,$(findstring aarch64,$(MACHINE)))
TABLES := generic neon
else
TABLES := generic
endif
ISA_avx2   := -mavx2 -mfma -mbmi2 -mpopcnt
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512

# OpenBLAS without threads, which the other builds start before main().  All builds have one soname, so the program
# must know where this one lies; where there is none, the one that pkg-config finds is told to keep to one thread.
SERIAL_BLAS := /usr/lib/$(subst -pc-,-,$(MACHINE))/openblas-serial/pkgconfig

# Asked only when a recipe needs it, since `make deps` may install it in the same run.
pkg         = $(shell PKG_CONFIG_PATH="$(SERIAL_BLAS):$$PKG_CONFIG_PATH" $(PKG_CONFIG) $(1))
PKG_CFLAGS  = $(eval PKG_CFLAGS := $(call pkg,--cflags openblas libcjson libmicrohttpd gnutls nettle inih check))$(PKG_CFLAGS)
CORE_LIBS   = $(call pkg,--libs openblas) -Wl,-rpath,$(call pkg,--variable=libdir openblas) -lm -pthread
PROTO_LIBS  = $(call pkg,--libs libcjson nettle)
SERVER_LIBS = $(call pkg,--libs libmicrohttpd gnutls nettle inih)
CHECK_LIBS  = $(call pkg,--libs check libcjson)

KERNEL_SOURCE := core/kernels/kernels_table.c
KERNEL_OBJS   := $(TABLES:%=$(BUILD)/core/kernels/kernels_%.o)
sources        = $(sort $(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c))
objects        = $(patsubst %.c,$(BUILD)/%.o,$(1))
CORE_OBJS     := $(call objects,$(filter-out $(KERNEL_SOURCE),$(call sources,core))) $(KERNEL_OBJS)
PROTO_OBJS    := $(call objects,$(call sources,proto))
SERVER_OBJS   := $(call objects,$(filter-out server/main.c,$(call sources,server)))
TESTS         := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
OBJS          := $(CORE_OBJS) $(PROTO_OBJS) $(SERVER_OBJS) $(BUILD)/server/main.o $(TESTS:%=%.o)

.PHONY: all deps deps-bench deps-dev run test test-faults check blackbox asan tsan bench bench-quick lint format install uninstall clean
all: $(BUILD)/samplerd

$(BUILD)/samplerd: $(BUILD)/server/main.o $(BUILD)/libserver.a $(BUILD)/libproto.a $(BUILD)/libcore.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(SERVER_LIBS) $(PROTO_LIBS) $(CORE_LIBS)

$(BUILD)/libcore.a: $(CORE_OBJS)
$(BUILD)/libproto.a: $(PROTO_OBJS)
$(BUILD)/libserver.a: $(SERVER_OBJS)
$(BUILD)/lib%.a:
	@rm -f $@
	$(AR) rcs $@ $^

COMPILE = $(CC) -std=c11 -D_GNU_SOURCE -DSAMPLERD_VERSION='"$(VERSION)"' -I. $(WARNINGS) $(EXACT) $(PKG_CFLAGS) \
          $(CPPFLAGS) $(CFLAGS) -pthread -MMD -MP

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(COMPILE) -c -o $@ $<

$(KERNEL_OBJS): $(BUILD)/core/kernels/kernels_%.o: $(KERNEL_SOURCE)
	@mkdir -p $(@D)
	$(COMPILE) $(ISA_$*) -DKERNELS_TABLE=kernels_$* -DKERNELS_NAME='"$*"' -c -o $@ $<

# Nothing is compiled before `make deps` is through, in parallel runs too.
$(OBJS): | $(filter deps,$(MAKECMDGOALS))

# A test links what its module may use, and nothing above it: core/ alone, proto/ on top, or all.
tests_of      = $(filter $(patsubst %.c,$(BUILD)/tests/test_%,$(notdir $(call sources,$(1)))),$(TESTS))
CORE_TESTS   := $(call tests_of,core)
PROTO_TESTS  := $(call tests_of,proto)
SERVER_TESTS := $(filter-out $(CORE_TESTS) $(PROTO_TESTS),$(TESTS))
$(CORE_TESTS): %: %.o $(BUILD)/libcore.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(CORE_LIBS)
$(PROTO_TESTS): %: %.o $(BUILD)/libproto.a $(BUILD)/libcore.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(PROTO_LIBS) $(CORE_LIBS)
$(SERVER_TESTS): %: %.o $(BUILD)/libserver.a $(BUILD)/libproto.a $(BUILD)/libcore.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(SERVER_LIBS) $(PROTO_LIBS) $(CORE_LIBS)

# It counts what core/ allocates.
$(BUILD)/tests/test_sampler: override LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc

run: $(BUILD)/samplerd
	$(BUILD)/samplerd $(ARGS)

test: $(TESTS) $(BUILD)/samplerd
	@failed=; for t in $(TESTS); do $$t || failed="$$failed $$t"; done; \
	if [ -n "$$failed" ]; then echo "FAILED:$$failed"; exit 1; fi
	SAMPLERD=$(BUILD)/samplerd $(PYTHON) -m unittest discover -s tests/blackbox -t tests/blackbox
check: test

# What goes wrong outside: slow and vanished clients, no memory, a full disk, replicas that die.  With wrk and haproxy
# where they are installed.
FAILING_MALLOC := $(BUILD)/tests/faults/failing_malloc.so
$(FAILING_MALLOC): tests/faults/failing_malloc.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) -O2 -shared -fPIC -o $@ $<
$(FAILING_MALLOC): | $(filter deps,$(MAKECMDGOALS))
test-faults: $(BUILD)/samplerd $(FAILING_MALLOC)
	SAMPLERD=$(BUILD)/samplerd FAILING_MALLOC_SO=$(abspath $(FAILING_MALLOC)) \
	$(PYTHON) -m unittest discover -s tests/faults -t tests/faults

# The same tests with every memory access, overflow and race watched.
asan:
	ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	$(MAKE) test BUILD=build/asan CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined"
tsan:
	$(MAKE) test BUILD=build/tsan CFLAGS="-O1 -g -fsanitize=thread"

C_FILES := $(foreach room,core proto server,$(call sources,$(room)))
lint:
	clang-tidy --quiet $(C_FILES) -- -std=c11 -D_GNU_SOURCE -DSAMPLERD_VERSION='"$(VERSION)"' -I. $(PKG_CFLAGS) \
	    -DKERNELS_TABLE=kernels_generic -DKERNELS_NAME='"generic"'
	cppcheck --quiet --error-exitcode=1 --std=c11 --inline-suppr --enable=warning,performance,portability \
	    --suppress=missingIncludeSystem -I. -D__x86_64__ -DKERNELS_TABLE=kernels_generic -DKERNELS_NAME='"generic"' \
	    -DSAMPLERD_VERSION='""' $(C_FILES)
	clang-format --dry-run --Werror $(wildcard */*.[ch] */*/*.[ch] */*/*/*.[ch])
format:
	clang-format -i $(wildcard */*.[ch] */*/*.[ch] */*/*/*.[ch])

# The unit files name the program where it is installed.
UNIT_DIR = $(PREFIX)/lib/systemd/system
UNITS   := samplerd.service samplerd.socket
install: $(BUILD)/samplerd
	install -D -m 755 $(BUILD)/samplerd $(DESTDIR)$(PREFIX)/bin/samplerd
	install -D -m 644 config.example.ini $(DESTDIR)$(PREFIX)/share/doc/samplerd/config.example.ini
	install -D -m 644 README.md $(DESTDIR)$(PREFIX)/share/doc/samplerd/README.md
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/samplerd/LICENSE
	install -d $(DESTDIR)$(UNIT_DIR)
	for u in $(UNITS); do sed 's|/usr/local|$(PREFIX)|g' packaging/systemd/$$u >$(DESTDIR)$(UNIT_DIR)/$$u && \
	    chmod 644 $(DESTDIR)$(UNIT_DIR)/$$u || exit 1; done
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/samplerd $(UNITS:%=$(DESTDIR)$(UNIT_DIR)/%)
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/samplerd
clean:
	rm -rf build

# Debian packages: to build and to test; and what `make bench` and `make fuzz` need on top.
DEPS       := gcc libc6-dev pkg-config libmicrohttpd-dev libgnutls28-dev nettle-dev libcjson-dev libinih-dev \
              libopenblas-serial-dev librandom123-dev check python3 curl openssl
DEPS_BENCH := wrk gnuplot-nox libsimdjson-dev
DEPS_DEV   := clang libclang-rt-dev haproxy python3-numpy
deps: PACKAGES := $(DEPS)
deps: ELSEWHERE := samplerd needs a C11 compiler, GNU make, pkg-config, libmicrohttpd >= 0.9.71 with \
                   GnuTLS, nettle, cJSON, inih, OpenBLAS and the Random123 headers; its tests need check, Python 3, \
                   curl and openssl.
deps-bench: PACKAGES := $(DEPS_BENCH)
deps-bench: ELSEWHERE := The benchmarks need wrk, gnuplot and simdjson.
deps-dev: PACKAGES := $(DEPS_DEV)
deps-dev: ELSEWHERE := Fuzzing needs clang and its libFuzzer; some tests want HAProxy and numpy, and are left out \
                       without them.
deps-bench deps-dev: | $(filter deps,$(MAKECMDGOALS))
deps deps-bench deps-dev:
	@if ! command -v apt-get >/dev/null; then echo "This is no Debian. $(ELSEWHERE)"; exit 0; fi; \
	missing=; for p in $(PACKAGES); do \
	    dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q '^install ok installed' || missing="$$missing $$p"; done; \
	if [ -z "$$missing" ]; then echo "Every package that samplerd needs is here."; exit 0; fi; \
	echo "Installing:$$missing"; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -qq && \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing

# build/samplerd-bench: timings without a server; simdjson is one of its baselines where it is installed.
CXXFLAGS   ?= -O3 -g -march=native
BENCH_OBJS := $(call objects,$(filter-out bench/sink.c bench/sender.c bench/cjson_parse.c,$(wildcard bench/*.c)))
BENCH_LINK  = $(CC)
OBJS       += $(BENCH_OBJS)
ifeq (yes,$(shell command -v $(CXX) >/dev/null && $(PKG_CONFIG) --exists simdjson && echo yes))
BENCH_LINK  = $(CXX)
BENCH_LIBS  = $(call pkg,--libs simdjson)
$(BUILD)/bench/bench_numbers.o: override CPPFLAGS += -DHAVE_SIMDJSON
$(BUILD)/samplerd-bench: $(BUILD)/bench/simdjson_baseline.o
$(BUILD)/bench/simdjson_baseline.o: bench/simdjson_baseline.cpp bench/simdjson_baseline.h
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -I. -Wall -Wextra -Wshadow $(CPPFLAGS) $(CXXFLAGS) -c -o $@ $<
endif
$(BUILD)/samplerd-bench: $(BENCH_OBJS) $(BUILD)/libproto.a $(BUILD)/libcore.a
	$(BENCH_LINK) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(BENCH_LIBS) $(PROTO_LIBS) $(CORE_LIBS)

# Timings of core, numbers and the whole server: table.md and plots in build/bench/ (README, "Speed").
BENCH := $(BUILD)/bench/sink $(BUILD)/bench/sender $(BUILD)/bench/cjson_parse
bench bench-quick: $(BUILD)/samplerd $(BUILD)/samplerd-bench $(BENCH)
	$(PYTHON) bench/run.py --build $(BUILD) $(if $(filter bench-quick,$@),--quick) $(ARGS)
$(BENCH): %: %.o
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(SERVER_LIBS) $(PROTO_LIBS)
$(BENCH:%=%.o): | $(filter deps deps-bench,$(MAKECMDGOALS))
OBJS += $(BENCH:%=%.o)

# Fuzz targets: `make test` replays the inputs of tests/corpus/ with any compiler; `make fuzz SECONDS=60` looks
# for more with clang's libFuzzer, so long for each target.
FUZZ_CC     ?= clang
FUZZ_MAIN   ?= $(BUILD)/tests/fuzz_main.o
FUZZ_CFLAGS := -O2 -g -fno-omit-frame-pointer -fno-sanitize-recover=all \
               -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow
FUZZ_FLAGS  := BUILD=build/fuzz CC=$(FUZZ_CC) CFLAGS="$(FUZZ_CFLAGS)" FUZZ_MAIN= FUZZ_LINK=-fsanitize=fuzzer \
               FUZZ_LOOPS=-fno-sanitize-coverage=trace-cmp # core/ compares counters, by the million
SECONDS     ?= 60
FUZZERS     := $(patsubst tests/fuzz_%.c,%,$(filter-out tests/fuzz_main.c,$(wildcard tests/fuzz_*.c)))
FUZZ_BINS   := $(FUZZERS:%=$(BUILD)/tests/fuzz_%)
OBJS        += $(FUZZ_BINS:%=%.o) $(BUILD)/tests/fuzz_main.o

.PHONY: fuzz fuzz-run replay
$(FUZZ_BINS:%=%.o) $(BUILD)/tests/fuzz_main.o: | $(filter deps deps-dev,$(MAKECMDGOALS))
CORE_FUZZERS := $(BUILD)/tests/fuzz_sampler
$(CORE_OBJS) $(CORE_FUZZERS:%=%.o): override CPPFLAGS += $(FUZZ_LOOPS)
$(CORE_FUZZERS): %: %.o $(FUZZ_MAIN) $(BUILD)/libcore.a
	$(CC) $(CFLAGS) $(FUZZ_LINK) $(LDFLAGS) -o $@ $^ $(CORE_LIBS)
$(filter-out $(CORE_FUZZERS),$(FUZZ_BINS)): %: %.o $(FUZZ_MAIN) $(BUILD)/libproto.a $(BUILD)/libcore.a
	$(CC) $(CFLAGS) $(FUZZ_LINK) $(LDFLAGS) -o $@ $^ $(PROTO_LIBS) $(CORE_LIBS)

test: replay
replay: $(FUZZ_BINS)
	@for f in $(FUZZERS); do $(BUILD)/tests/fuzz_$$f tests/corpus/$$f || exit 1; done

fuzz: | $(filter deps deps-dev,$(MAKECMDGOALS))
	@command -v $(FUZZ_CC) >/dev/null || { echo "make fuzz needs clang and its libFuzzer: make deps-dev"; exit 1; }
	$(MAKE) fuzz-run $(FUZZ_FLAGS)
fuzz-run: $(FUZZ_BINS)
	tests/fuzz.sh $(BUILD) $(SECONDS) $(FUZZERS)

-include $(OBJS:.o=.d)
