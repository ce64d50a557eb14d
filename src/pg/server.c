/*
 * server.c
 *		From the name of a server and a role to a client.
 *
 * A connection is kept under the oid of the user mapping that decided its
 * credential, so two users of one PUBLIC mapping share it and no user ever meets
 * the connection of another mapping.
 *
 * Invariants
 *	- A syscache callback only marks: it runs in the middle of anything.
 *	- A client that was handed out lives until the top-level transaction ends, and
 *	  while it is held, the transactions after it; one that has been replaced
 *	  meanwhile waits in "retired".
 *	- "shortcut" is the connection of the last lookup.  Everything that decided
 *	  that lookup forgets it: server, mapping, roles and their memberships.  The
 *	  name and the role are compared each time.
 *	- An entry is valid and without a client when none was needed yet, and when
 *	  making one has raised.
 *	- At the end of a transaction no more than MAX_CLIENTS are left, those that
 *	  were looked up last.
 */
#include "server.h"

#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "decision_list.h"
#include "error.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "option.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "supervisor.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/syscache.h"
#include "wait.h"

#define WRAPPER_NAME "verdict"

/* With all the connections that each may keep, this is below what a backend may
 * have open outside of its own files. */
#define MAX_CLIENTS 32

typedef struct verdict_connection
{
	Oid mapping;					 /* hash key: oid of the user mapping */
	verdict_server server;			 /* its client is NULL when it is still to be made */
	verdict_supervision supervision; /* of its clients */
	bool valid;						 /* server and mapping are as they were */
	uint64 looked_up;				 /* when, in lookups of this backend */
	uint32 server_hash;				 /* syscache hashes, for invalidation */
	uint32 mapping_hash;
} verdict_connection;

static HTAB *connections = NULL;
static List *retired = NIL; /* verdict_client *, in TopMemoryContext */
static bool work_at_end = false;
static bool held = false;
static uint64 lookups = 0;

static verdict_connection *shortcut = NULL;
static Oid shortcut_role = InvalidOid;
static char shortcut_name[NAMEDATALEN];
static uint64 shortcut_generation = 0; /* grows when the shortcut is forgotten */

static void
forget_shortcut(void)
{
	shortcut = NULL;
	shortcut_generation++;
}

static void
role_changed(Datum argument, int cache, uint32 hash)
{
	(void) argument;
	(void) cache;
	(void) hash;
	forget_shortcut();
}

static void
connection_changed(Datum argument, int cache, uint32 hash)
{
	HASH_SEQ_STATUS scan;
	verdict_connection *connection;

	(void) argument;
	forget_shortcut();
	hash_seq_init(&scan, connections);
	while ((connection = hash_seq_search(&scan)) != NULL)
	{
		/* A hash of 0 stands for every object. */
		if (hash == 0 || (cache == FOREIGNSERVEROID && connection->server_hash == hash) ||
			(cache == USERMAPPINGOID && connection->mapping_hash == hash))
		{
			connection->valid = false;
			work_at_end = true;
		}
	}
}

static void
start(void)
{
	HASHCTL control = {
		.keysize = sizeof(Oid),
		.entrysize = sizeof(verdict_connection),
	};

	connections = hash_create("verdict connections", 8, &control, HASH_ELEM | HASH_BLOBS);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, connection_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGOID, connection_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, role_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, role_changed, (Datum) 0);
}

verdict_runtime *
verdict_server_runtime(void)
{
	static verdict_runtime *runtime = NULL;

	if (runtime == NULL)
	{
		verdict_status status;

		verdict_status_init(&status);
		runtime = verdict_runtime_create(verdict_backend_host(), &status);
		if (runtime == NULL)
			verdict_report_failure(&status, "start the client of Verdict");
	}
	return runtime;
}

const char *
verdict_server_name(void)
{
	if (verdict_setting_server == NULL || verdict_setting_server[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("verdict.server is not set"),
				 errhint("Set it to the name of a foreign server, such as SET verdict.server = "
						 "'name', or for everybody with ALTER DATABASE ... SET.")));
	return verdict_setting_server;
}

/* The server of that name, which the role may use. */
static Oid
find_server(const char *name, Oid role)
{
	ForeignServer *server;
	AclResult access;

	server = GetForeignServerByName(name, true);
	if (server == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("server \"%s\" of verdict.server does not exist", name),
						errhint("Make it with CREATE SERVER ... FOREIGN DATA WRAPPER verdict.")));
	if (strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, WRAPPER_NAME) != 0)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("server \"%s\" of verdict.server is not a Verdict instance",
							   server->servername),
						errdetail("It is a server of foreign-data wrapper \"%s\".",
								  GetForeignDataWrapper(server->fdwid)->fdwname)));

	access = verdict_server_aclcheck(server->serverid, role);
	if (access != ACLCHECK_OK)
		aclcheck_error(access, OBJECT_FOREIGN_SERVER, server->servername);
	return server->serverid;
}

/* The mapping of the role, or the one of PUBLIC. */
static Oid
find_mapping(Oid role, Oid server)
{
	Oid mapping;

	mapping = GetSysCacheOid2(USERMAPPINGUSERSERVER, Anum_pg_user_mapping_oid,
							  ObjectIdGetDatum(role), ObjectIdGetDatum(server));
	if (!OidIsValid(mapping))
		mapping = GetSysCacheOid2(USERMAPPINGUSERSERVER, Anum_pg_user_mapping_oid,
								  ObjectIdGetDatum(InvalidOid), ObjectIdGetDatum(server));
	if (!OidIsValid(mapping))
		ereport(
			ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("user \"%s\" has no user mapping for server \"%s\"",
					GetUserNameFromId(role, false), GetForeignServer(server)->servername),
			 errhint(
				 "Make one with CREATE USER MAPPING FOR ... SERVER ... OPTIONS (api_key '...').")));
	return mapping;
}

/* libcurl would only say that it could not load something. */
static void
check_readable(const ForeignServer *server, const char *path)
{
	FILE *file = AllocateFile(path, "r");

	if (file == NULL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open certificate file \"%s\": %m", path),
				 errhint("It is option \"ssl_ca_file\" of server \"%s\".", server->servername)));
	FreeFile(file);
}

static void
wipe_options(List *list)
{
	ListCell *cell;

	foreach (cell, list)
	{
		char *value = defGetString(lfirst_node(DefElem, cell));

		explicit_bzero(value, strlen(value));
	}
}

/*
 * Reads the options of a connection, and makes its client when asked.  False, with
 * nothing made, when the role has another mapping by now: its key must not stand
 * under the oid of this one.
 */
static bool
make_connection(verdict_connection *connection, Oid role, Oid server_oid, bool with_client)
{
	ForeignServer *server;
	UserMapping *mapping;
	verdict_server_options options;
	verdict_runtime *runtime = with_client ? verdict_server_runtime() : NULL;
	verdict_status status;

	if (connection->server.client != NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);

		retired = lappend(retired, connection->server.client);
		connection->server.client = NULL;
		work_at_end = true;
		MemoryContextSwitchTo(caller);
	}

	/* Marked before the catalogs are read, so that no change is missed. */
	connection->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID, ObjectIdGetDatum(server_oid));
	connection->mapping_hash =
		GetSysCacheHashValue1(USERMAPPINGOID, ObjectIdGetDatum(connection->mapping));
	connection->valid = true;

	server = GetForeignServer(server_oid);
	mapping = GetUserMapping(role, server_oid);
	if (mapping->umid != connection->mapping)
	{
		wipe_options(mapping->options);
		return false;
	}
	verdict_status_init(&status);
	PG_TRY();
	{
		verdict_options_read(server, mapping, &options);
		connection->server.oid = server_oid;
		connection->server.batch_size = options.batch_size;
		if (with_client)
		{
			if (options.client.ssl_ca_file != NULL)
				check_readable(server, options.client.ssl_ca_file);
			verdict_supervise(&connection->supervision, server_oid, server->servername);
			options.client.supervisor = &connection->supervision.supervisor;
			connection->server.client = verdict_client_create(runtime, &options.client, &status);
		}
	}
	PG_CATCH();
	{
		wipe_options(mapping->options);
		connection->valid = false;
		PG_RE_THROW();
	}
	PG_END_TRY();

	wipe_options(mapping->options);
	if (with_client && connection->server.client == NULL)
		verdict_report_failure(&status, "use the options of the server");
	return true;
}

static bool
is_made(const verdict_connection *connection, bool with_client)
{
	return connection->valid && (!with_client || connection->server.client != NULL);
}

static verdict_connection *
look_up(const char *name, Oid role, bool with_client)
{
	uint64 generation;
	Oid server;
	Oid mapping;
	verdict_connection *connection;
	bool found;

	if (connections == NULL)
		start();

	do
	{
		generation = shortcut_generation;
		server = find_server(name, role);
		mapping = find_mapping(role, server);

		connection = hash_search(connections, &mapping, HASH_ENTER, &found);
		if (!found)
		{
			connection->server.client = NULL;
			connection->valid = false;
			if (hash_get_num_entries(connections) > MAX_CLIENTS)
				work_at_end = true;
		}
		connection->looked_up = ++lookups;
	} while (!is_made(connection, with_client) &&
			 !make_connection(connection, role, server, with_client));

	if (generation == shortcut_generation)
	{
		shortcut = connection;
		shortcut_role = role;
		strlcpy(shortcut_name, name, sizeof(shortcut_name));
	}
	return connection;
}

static const verdict_server *
get_server(const char *name, Oid role, bool with_client)
{
	if (shortcut != NULL && shortcut_role == role && strcmp(shortcut_name, name) == 0 &&
		is_made(shortcut, with_client))
		return &shortcut->server;
	return &look_up(name, role, with_client)->server;
}

const verdict_server *
verdict_server_use(const char *name, Oid role)
{
	return get_server(name, role, true);
}

const verdict_server *
verdict_server_find(const char *name, Oid role)
{
	return get_server(name, role, false);
}

static void
destroy_client(verdict_client *client)
{
	verdict_lists_drop(client);
	verdict_client_destroy(client);
}

static void
drop_connection(verdict_connection *connection)
{
	if (connection == shortcut)
		forget_shortcut();
	if (connection->server.client != NULL)
		destroy_client(connection->server.client);
	hash_search(connections, &connection->mapping, HASH_REMOVE, NULL);
}

/* Drops the connection that was looked up longest ago. */
static void
drop_oldest(void)
{
	HASH_SEQ_STATUS scan;
	verdict_connection *connection;
	verdict_connection *oldest = NULL;

	hash_seq_init(&scan, connections);
	while ((connection = hash_seq_search(&scan)) != NULL)
	{
		if (oldest == NULL || connection->looked_up < oldest->looked_up)
			oldest = connection;
	}
	drop_connection(oldest);
}

void
verdict_server_hold(bool hold)
{
	held = hold;
}

void
verdict_server_at_end(void)
{
	HASH_SEQ_STATUS scan;
	verdict_connection *connection;
	ListCell *cell;

	/*
	 * A process that is ending may be in the middle of a call: then everything
	 * goes with the process.
	 */
	if (!work_at_end || held || proc_exit_inprogress)
		return;
	work_at_end = false;

	foreach (cell, retired)
		destroy_client(lfirst(cell));
	list_free(retired);
	retired = NIL;

	hash_seq_init(&scan, connections);
	while ((connection = hash_seq_search(&scan)) != NULL)
	{
		if (!connection->valid)
			drop_connection(connection);
	}
	while (hash_get_num_entries(connections) > MAX_CLIENTS)
		drop_oldest();
}
