/*
 * identity.h
 *		The type verdict_identity: a varlena that holds "Type:id" in the
 *		database's encoding.
 */
#ifndef VERDICT_PG_IDENTITY_H
#define VERDICT_PG_IDENTITY_H

#include "verdict.h"

/* Name of a type of this extension ("verdict_identity", "verdict_fact") to its
 * oid, found through the schema of the extension and not by search_path. */
extern Oid	verdict_type_oid(const char *name);

/*
 * The core's identity of a datum, in UTF-8, in the current memory context.
 */
extern verdict_identity verdict_identity_from_datum(Datum datum);
extern Datum verdict_identity_to_datum(const verdict_identity *identity);

#endif							/* VERDICT_PG_IDENTITY_H */
