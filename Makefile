# samplerd: GNU make, no configure step, output in build/.
#   make deps run     install what is missing, build, serve on 127.0.0.1:8090
#   make deps test    install what is missing, build, pass every test

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
CFLAGS  ?= -O3 -g
PYTHON  ?= /usr/bin/python3
PKG_CONFIG ?= pkg-config

VERSION  := $(shell cat VERSION)
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith
ifdef CI
WARNINGS += -Werror
endif

# IEEE semantics and no fused multiply-add but the ones written as fmaf(): the same bits everywhere.
EXACT := -ffp-contract=off -fno-fast-math

PACKAGES       := libmicrohttpd libcjson inih openblas
PACKAGES_CHECK := check
PKG_CFLAGS     := $(shell $(PKG_CONFIG) --cflags $(PACKAGES) $(PACKAGES_CHECK) 2>/dev/null)
CORE_LIBS       = $(shell $(PKG_CONFIG) --libs openblas) -lm -pthread
PROTO_LIBS      = $(shell $(PKG_CONFIG) --libs libcjson)
SERVER_LIBS     = $(shell $(PKG_CONFIG) --libs libmicrohttpd inih)
CHECK_LIBS      = $(shell $(PKG_CONFIG) --libs $(PACKAGES_CHECK))

MACHINE := $(shell $(CC) -dumpmachine)
ifneq (,$(findstring x86_64,$(MACHINE)))
TABLES := generic avx2 avx512
else ifneq (,$(findstring aarch64,$(MACHINE)))
TABLES := generic neon
else
TABLES := generic
endif
ISA_generic :=
ISA_avx2    := -mavx2 -mfma
ISA_avx512  := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512
ISA_neon    :=

# One source, compiled once per instruction set.
KERNEL_SOURCE := core/kernels_table.c
KERNEL_OBJS   := $(TABLES:%=$(BUILD)/core/kernels_%.o)

objects = $(patsubst %.c,$(BUILD)/%.o,$(1))
CORE_OBJS   := $(call objects,$(filter-out $(KERNEL_SOURCE),$(wildcard core/*.c))) $(KERNEL_OBJS)
PROTO_OBJS  := $(call objects,$(wildcard proto/*.c))
SERVER_OBJS := $(call objects,$(filter-out server/main.c,$(wildcard server/*.c)))
TESTS       := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
OBJS        := $(CORE_OBJS) $(PROTO_OBJS) $(SERVER_OBJS) $(BUILD)/server/main.o $(TESTS:%=%.o)

.PHONY: all deps run test check asan tsan lint format install uninstall clean
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

$(KERNEL_OBJS): $(BUILD)/core/kernels_%.o: $(KERNEL_SOURCE)
	@mkdir -p $(@D)
	$(COMPILE) $(ISA_$*) -DKERNELS_TABLE=kernels_$* -DKERNELS_NAME='"$*"' -c -o $@ $<

# What a test may link is what its module may use: core/ alone, proto/ on top of it, or all.
CORE_TESTS   := $(patsubst core/%.c,$(BUILD)/tests/test_%,$(wildcard core/*.c))
PROTO_TESTS  := $(patsubst proto/%.c,$(BUILD)/tests/test_%,$(wildcard proto/*.c))
$(filter $(CORE_TESTS),$(TESTS)): %: %.o $(BUILD)/libcore.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(TEST_LIBS) $(CORE_LIBS)
$(filter $(PROTO_TESTS),$(TESTS)): %: %.o $(BUILD)/libproto.a $(BUILD)/libcore.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(PROTO_LIBS) $(CORE_LIBS)
$(filter-out $(CORE_TESTS) $(PROTO_TESTS),$(TESTS)): %: %.o $(BUILD)/libserver.a $(BUILD)/libproto.a $(BUILD)/libcore.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(SERVER_LIBS) $(PROTO_LIBS) $(CORE_LIBS)

-include $(OBJS:.o=.d)
