# verdict: the front door.
#
# This file is read in two ways.
#   In this folder it is the front door: it builds the client core, the bundled
#   instance and the unit tests with the plain C compiler below build/, and
#   hands what belongs to PostgreSQL to PGXS in build/pg<major>/.
#   From another folder (make -f path/to/Makefile, or with VPATH) it is a PGXS
#   makefile; that is how the front door uses it, and how a packager may.
# So objects for two PostgreSQL versions never mix, and nothing here needs
# pg_config before it is asked for.

PG_CONFIG ?= pg_config
pg_config := $(if $(findstring /,$(PG_CONFIG)),$(abspath $(PG_CONFIG)),$(PG_CONFIG))
WERROR ?= -Werror

source := $(patsubst %/,%,$(dir $(abspath $(firstword $(MAKEFILE_LIST)))))

warnings := -Wall -Wextra $(WERROR) -Wmissing-prototypes -Wvla \
	-Wpointer-arith -Wformat-security

ifeq ($(source)$(VPATH),$(CURDIR))

# ---------------------------------------------------------------- front door

# Everything built for one set of compiler flags stands below one folder.
BUILD ?= build

CFLAGS ?= -g -O2 -fstack-protector-strong -D_FORTIFY_SOURCE=2
plain_cflags = -std=gnu99 -fPIC -fvisibility=hidden $(warnings) -MMD -MP
plain_cppflags = -D_GNU_SOURCE -I$(BUILD)/core -Isrc/core

package = $(or $(shell pkg-config $(1) 2>/dev/null),$(2))
core_libs = $(call package,--libs libcurl libprotobuf-c jansson libcrypto zlib,-lcurl -lprotobuf-c -ljansson -lcrypto -lz) -lpthread
server_libs = $(call package,--libs libmicrohttpd sqlite3 gnutls,-lmicrohttpd -lsqlite3 -lgnutls) $(core_libs) -lm
test_libs = $(call package,--libs cmocka,-lcmocka)

core_library = $(BUILD)/core/libverdict_core.a
core_objects = $(patsubst src/core/%.c,$(BUILD)/core/%.o,$(wildcard src/core/*.c)) \
	$(BUILD)/core/verdict.pb-c.o
server_objects = $(patsubst test/server/%.c,$(BUILD)/test/server/%.o,$(wildcard test/server/*.c))
server_parts = $(filter-out %/main.o,$(server_objects))
verdict_dev = $(if $(server_objects),$(BUILD)/test/server/verdict-dev)

core_support = $(patsubst test/core/%.c,$(BUILD)/test/core/%.o,\
	$(filter-out test/core/test_%,$(wildcard test/core/*.c)))
core_tests = $(patsubst test/core/%.c,$(BUILD)/test/core/%,$(wildcard test/core/test_*.c))
server_test_support = $(patsubst test/server/tests/%.c,$(BUILD)/test/server/tests/%.o,\
	$(filter-out test/server/tests/test_%,$(wildcard test/server/tests/*.c)))
server_tests = $(patsubst test/server/tests/%.c,$(BUILD)/test/server/tests/%,\
	$(wildcard test/server/tests/test_*.c))
fuzz_targets = $(patsubst test/fuzz/%.c,$(BUILD)/test/fuzz/%,$(wildcard test/fuzz/fuzz_*.c))

all: pgxs-all

# What PGXS users know goes to PGXS, in a folder of its own for each version.
pg_major = $(shell $(pg_config) --version 2>/dev/null | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
pgxs_folder = build/pg$(pg_major)
pgxs = $(MAKE) -C $(pgxs_folder) -f $(CURDIR)/Makefile PG_CONFIG='$(pg_config)'

pgxs-%: core FORCE
	@test -n "$(pg_major)" || { \
		echo "$(PG_CONFIG) does not run: name the PostgreSQL to build for with PG_CONFIG=/path/to/pg_config," >&2; \
		echo "or let test/bin/setup install what is missing." >&2; exit 1; }
	@mkdir -p $(pgxs_folder)/src/pg
	+$(pgxs) $*

install: pgxs-install
uninstall: pgxs-uninstall
installdirs: pgxs-installdirs
installcheck: pgxs-installcheck
pgxs-installcheck: server

# What was fetched for tests stays.
clean:
	rm -rf $(filter-out build/majors build/pgbouncer build/node build/go build/gopath,$(wildcard build/*))
distclean maintainer-clean:
	rm -rf build

driver = $(BUILD)/test/driver/commit_revision

core: $(core_library)
driver: $(driver)
server: $(verdict_dev)
unit-tests: $(core_tests) $(server_tests)
fuzzers: $(fuzz_targets)

$(core_library): $(core_objects)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/core/verdict.pb-c.c: src/core/verdict.proto
	@mkdir -p $(@D)
	protoc-c --proto_path=src/core --c_out=$(@D) $<
$(BUILD)/core/verdict.pb-c.h: $(BUILD)/core/verdict.pb-c.c ;

compile = $(CC) $(plain_cppflags) $(CPPFLAGS) $(CFLAGS) $(plain_cflags)

$(BUILD)/core/verdict.pb-c.o: $(BUILD)/core/verdict.pb-c.c
	$(compile) -c -o $@ $<
$(BUILD)/core/%.o: src/core/%.c | $(BUILD)/core/verdict.pb-c.c
	@mkdir -p $(@D)
	$(compile) -c -o $@ $<
$(BUILD)/test/%.o: test/%.c | $(BUILD)/core/verdict.pb-c.c
	@mkdir -p $(@D)
	$(compile) -Itest/core -Itest/server -c -o $@ $<

$(verdict_dev): $(server_objects) $(core_library)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(server_libs)
$(core_tests): %: %.o $(core_support) $(core_library)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(test_libs) $(core_libs)
$(server_tests): %: %.o $(server_test_support) $(server_parts) $(core_library)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(test_libs) $(server_libs)
$(BUILD)/test/bench/bench.o: private CPPFLAGS += -I$(shell $(PG_CONFIG) --includedir 2>/dev/null)
$(BUILD)/test/bench/bench: %: %.o $(core_library)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(core_libs) -lpq
$(driver).o: private CPPFLAGS += -I$(shell $(PG_CONFIG) --includedir 2>/dev/null)
$(driver): %: %.o
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lpq
$(fuzz_targets): %: %.o $(core_library)
	$(CC) $(CFLAGS) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(core_libs)

-include $(wildcard $(BUILD)/core/*.d $(BUILD)/test/*/*.d $(BUILD)/test/*/*/*.d)
.SECONDARY:

# Each of these installs what it needs, and starts and stops what it uses.
setup:
	@test/bin/setup
try check check-sanitizers check-valgrind fuzz bench check-conformance check-peer check-majors check-long check-histories:
	@PG_CONFIG='$(pg_config)' exec test/bin/$@

format-check:
	@test/bin/setup clang-format-14
	@clang-format-14 --dry-run --Werror $(wildcard src/core/*.[ch] src/pg/*.[ch] \
		test/core/*.[ch] test/server/*.[ch] test/server/tests/*.[ch] test/fuzz/*.[ch] \
		test/bench/*.[ch] test/conformance/*.[ch] test/driver/*.[ch])

FORCE:
.PHONY: all install uninstall installdirs installcheck clean distclean \
	maintainer-clean core driver server unit-tests fuzzers setup try check \
	check-sanitizers check-valgrind fuzz bench check-conformance check-peer \
	check-majors check-long check-histories format-check FORCE

else

# ---------------------------------------------------------------------- PGXS

core_library := $(source)/build/core/libverdict_core.a

ifeq ($(VPATH),)
VPATH := $(source)
endif

MODULE_big = verdict
OBJS = $(patsubst $(source)/%.c,%.o,$(wildcard $(source)/src/pg/*.c))
EXTENSION = verdict
DATA = $(patsubst $(source)/%,%,$(wildcard $(source)/sql/verdict--*.sql))
REGRESS = $(filter-out verdict--%,$(patsubst $(source)/sql/%.sql,%,$(wildcard $(source)/sql/*.sql)))
REGRESS_OPTS += --launcher=$(source)/test/bin/with-instance
EXTRA_CLEAN = pg_config.stamp src

# The server's headers are not ours to warn about.
PG_CPPFLAGS = -I$(source)/src/core -isystem $(includedir_server)
PG_CFLAGS = -std=gnu99 $(warnings) -Wno-declaration-after-statement
SHLIB_LINK = $(core_library) $(shell pkg-config --libs libcurl libprotobuf-c jansson libcrypto zlib 2>/dev/null || \
	echo -lcurl -lprotobuf-c -ljansson -lcrypto -lz)

PGXS := $(shell $(PG_CONFIG) --pgxs)

# Bitcode for the JIT needs the clang that PostgreSQL was built with.
PG_CLANG := $(shell sed -n 's/^CLANG *= *//p' $(dir $(PGXS))../Makefile.global)
ifeq ($(shell command -v $(PG_CLANG)),)
override with_llvm = no
endif

include $(PGXS)

$(shell mkdir -p src/pg)

$(core_library):
	$(MAKE) -C $(source) VPATH= core
$(shlib): $(core_library)

# PGXS does not follow headers, and another build of the same version would use
# other flags: both make the objects old.
$(shell $(PG_CONFIG) > pg_config.new; cmp -s pg_config.new pg_config.stamp || cp pg_config.new pg_config.stamp; rm -f pg_config.new)
$(OBJS) $(OBJS:.o=.bc): pg_config.stamp $(wildcard $(source)/src/pg/*.h $(source)/src/core/*.h) $(source)/Makefile

endif
