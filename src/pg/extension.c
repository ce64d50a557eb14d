/*
 * extension.c
 *		Where the extension's own relations are.
 *
 * Asked anew each time: the extension may have been dropped, made again, or its
 * schema renamed since, and whoever keeps a plan compares what it was made for.
 */
#include "outbox.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_extension.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define EXTENSION "verdict"

/* The schema that the extension was made in; InvalidOid without an extension. */
static Oid
extension_schema(void)
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
		schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return schema;
}

Oid
verdict_extension_relation(const char *name)
{
	Oid schema = extension_schema();

	return OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
}
