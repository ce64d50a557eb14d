# What try and bench share: a bundled instance and a private cluster beside it.
# Sourced after common.sh; needs $work, $bin (of the private installation) and
# copy_tree.
#
# The cluster takes local connections by a socket that only its owner and root
# can reach, and connections on a free loopback port with a password made for
# this run.

server=$work/tree/build/test/server/verdict-dev

random() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }
export VERDICT_TEST_URL='' VERDICT_TEST_KEY
VERDICT_TEST_KEY=$(random)
# By a file, so that no other user of the machine sees it among the processes.
(umask 077 && printf '%s\n' "$VERDICT_TEST_KEY" >"$work/api_key")
give "$work/api_key"
password=$(random)

# start_instance ADDRESS [OPTION...]: the bundled instance with its data on disk.
start_instance()
{
	local address=$1
	shift
	as_runner "$server" --listen "$address" "$@" --data "$work/instance.db" --api-key-file "$work/api_key" \
		>"$work/instance.log" 2>&1 </dev/null &
	instance=$!
	VERDICT_TEST_URL=
	for attempt in $(seq 1 400); do
		VERDICT_TEST_URL=$(sed -n 's/^listening on //p' "$work/instance.log")
		[ -z "$VERDICT_TEST_URL" ] || break
		kill -0 "$instance" 2>/dev/null || break
		sleep 0.025
	done
	[ -n "$VERDICT_TEST_URL" ] || fail "the bundled instance did not start: $(cat "$work/instance.log")"
}

# Its own process, not the runuser before it.
stop_instance()
{
	ours | sed -n 's/ verdict-dev$//p' | while read -r process; do kill "$process"; done
	wait "$instance" || fail "the bundled instance did not end well: $(cat "$work/instance.log")"
}

free_port()
{
	perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1)->sockport'
}

# start_cluster DATABASE: psql's environment then leads to it.
start_cluster()
{
	port=$(free_port)
	mkdir -m 700 "$work/socket" "$work/log"
	printf '%s\n' "$password" >"$work/password"
	give "$work/socket" "$work/log" "$work/password"
	as_runner "$bin/initdb" -D "$work/cluster" -U postgres -E UTF8 --no-locale --no-sync \
		--auth-local=trust --auth-host=scram-sha-256 --pwfile="$work/password" \
		>"$work/log/initdb" 2>&1 </dev/null || fail "initdb: $(cat "$work/log/initdb")"
	as_runner "$bin/pg_ctl" -D "$work/cluster" -l "$work/log/postgresql" -w -s \
		-o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$work/socket -c fsync=off" \
		start </dev/null || fail "postgres: $(cat "$work/log/postgresql")"
	echo "    127.0.0.1:$port, database $1, user postgres, password $password"

	unset "${!PG@}"
	export PGHOST=$work/socket PGPORT=$port PGUSER=postgres PGDATABASE=$1
	"$bin/psql" -X -q -d postgres -c "CREATE DATABASE $1"
}
