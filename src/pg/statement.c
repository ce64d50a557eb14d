/*
 * statement.c
 *		SQL statements on the extension's own tables.
 *
 * Where the tables are is asked anew each time: the extension may have been
 * dropped, made again, or its schema renamed since.  A plan is replaced when what
 * it was made for is another table now, so nobody's memory grows.
 */
#include "statement.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#define EXTENSION "verdict"

/* The schema that the extension was made in; InvalidOid without an extension. */
static Oid
extension_schema(Oid *extension)
{
	Relation catalog = table_open(ExtensionRelationId, AccessShareLock);
	Oid schema = InvalidOid;
	ScanKeyData name;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&name, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(EXTENSION));
	scan = systable_beginscan(catalog, ExtensionNameIndexId, true, NULL, 1, &name);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_extension row = (Form_pg_extension) GETSTRUCT(tuple);

		schema = row->extnamespace;
		*extension = row->oid;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return schema;
}

Oid
verdict_extension_relation(const char *name)
{
	Oid extension = InvalidOid;
	Oid schema = extension_schema(&extension);
	Oid relation;

	if (!OidIsValid(schema))
		return InvalidOid;
	relation = get_relname_relid(name, schema);
	if (OidIsValid(relation) && getExtensionOfObject(RelationRelationId, relation) != extension)
		return InvalidOid;
	return relation;
}

Oid
verdict_relation_owner(Oid relation)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Oid owner;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

void
verdict_statement_begin(verdict_statement_call *call, const char *table)
{
	Oid owner = InvalidOid;

	call->relation = verdict_extension_relation(table);
	if (OidIsValid(call->relation))
		owner = verdict_relation_owner(call->relation);
	if (!OidIsValid(owner))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("extension \"verdict\" is not installed in this database"),
						errdetail("Its table %s is needed.", table),
						errhint("Run CREATE EXTENSION verdict.")));
	call->schema = get_namespace_name(get_rel_namespace(call->relation));

	/* A commit callback has none. */
	call->snapshot = !ActiveSnapshotSet();
	if (call->snapshot)
		PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	GetUserIdAndSecContext(&call->user, &call->security);
	SetUserIdAndSecContext(owner, call->security | SECURITY_LOCAL_USERID_CHANGE |
									  SECURITY_RESTRICTED_OPERATION | SECURITY_NOFORCE_RLS);
}

void
verdict_statement_end(const verdict_statement_call *call)
{
	SetUserIdAndSecContext(call->user, call->security);
	SPI_finish();
	if (call->snapshot)
		PopActiveSnapshot();
}

/* Makes the statement's plan, unless it has the right one. */
static void
prepare(const verdict_statement_call *call, verdict_statement *statement)
{
	SPIPlanPtr plan;

	if (statement->plan != NULL && statement->relation == call->relation &&
		strcmp(NameStr(statement->schema), call->schema) == 0)
		return;

	plan = SPI_prepare(psprintf(statement->text, quote_identifier(call->schema)),
					   statement->parameters, statement->types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	if (statement->plan != NULL)
		SPI_freeplan(statement->plan);
	statement->plan = NULL;
	if (SPI_keepplan(plan) != 0)
		elog(ERROR, "SPI_keepplan failed");
	statement->plan = plan;
	statement->relation = call->relation;
	namestrcpy(&statement->schema, call->schema);
}

uint64
verdict_statement_run(const verdict_statement_call *call, verdict_statement *statement,
					  Datum *values, const char *nulls, int expected)
{
	int result;

	prepare(call, statement);
	result = SPI_execute_plan(statement->plan, values, nulls, false, 0);
	if (result != expected)
		elog(ERROR, "a statement on a table of extension \"verdict\" failed: %s",
			 SPI_result_code_string(result));
	return SPI_processed;
}

Datum
verdict_bytes_datum(const void *bytes, size_t size)
{
	bytea *datum = palloc(VARHDRSZ + size);

	SET_VARSIZE(datum, VARHDRSZ + size);
	memcpy(VARDATA(datum), bytes, size);
	return PointerGetDatum(datum);
}
