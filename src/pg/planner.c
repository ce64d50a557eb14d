/*
 * planner.c
 *		What the planner is told about the functions that read.
 *
 * verdict_authorize(actor, action, verdict_identity('Type', id)) becomes
 * verdict_authorize_id(actor, action, 'Type', id): the same check without an
 * identity being made for each row.  It changes what a row costs and never what
 * is answered, so it is left alone wherever the two could differ: a type that is
 * not a constant or no identifier, ids whose text depends on settings, volatile
 * arguments, functions whose EXECUTE was granted or revoked.
 *
 * Nothing here asks an instance or needs one.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/planmain.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "verdict.h"

PG_FUNCTION_INFO_V1(verdict_sql_authorize_support);

/*
 * Whether a function of this library stands behind "function", under that symbol,
 * and everybody may execute it as the extension had it.
 */
static bool
is_ours_and_open(Oid function, Oid schema, const char *name)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool matches;

	if (!HeapTupleIsValid(tuple))
		return false;
	matches = ((Form_pg_proc) GETSTRUCT(tuple))->pronamespace == schema &&
			  strcmp(NameStr(((Form_pg_proc) GETSTRUCT(tuple))->proname), name) == 0 &&
			  heap_attisnull(tuple, Anum_pg_proc_proacl, NULL);
	ReleaseSysCache(tuple);
	return matches;
}

/* Types whose text is the same whatever is set, as verdict_authorize_id() takes them. */
static bool
is_plain_id(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID || type == UUIDOID ||
		   type == TEXTOID;
}

static bool
is_identifier_constant(Node *node)
{
	Const *constant = (Const *) node;
	struct varlena *text;

	if (!IsA(node, Const) || constant->consttype != TEXTOID || constant->constisnull)
		return false;
	text = PG_DETOAST_DATUM_PACKED(constant->constvalue);
	return verdict_is_identifier(VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text));
}

static Node *
simplify_authorize(PlannerInfo *root, FuncExpr *call)
{
	Oid schema = get_func_namespace(call->funcid);
	Node *actor;
	Node *action;
	FuncExpr *resource;
	Node *consistency;
	Node *type;
	Node *id;
	Oid types[5];
	Oid function;

	if (list_length(call->args) != 4)
		return NULL;
	actor = linitial(call->args);
	action = lsecond(call->args);
	resource = lthird(call->args);
	consistency = lfourth(call->args);
	if (!IsA(resource, FuncExpr) || list_length(resource->args) != 2 ||
		!is_ours_and_open(resource->funcid, schema, "verdict_identity") ||
		!is_ours_and_open(call->funcid, schema, "verdict_authorize"))
		return NULL;
	type = linitial(resource->args);
	id = lsecond(resource->args);
	if (!is_identifier_constant(type) || !is_plain_id(exprType(id)) ||
		contain_volatile_functions((Node *) call->args))
		return NULL;

	types[0] = exprType(actor);
	types[1] = TEXTOID;
	types[2] = TEXTOID;
	types[3] = ANYELEMENTOID;
	types[4] = TEXTOID;
	function = LookupFuncName(list_make2(makeString(get_namespace_name(schema)),
										 makeString(pstrdup("verdict_authorize_id"))),
							  lengthof(types), types, true);
	if (!OidIsValid(function) || !is_ours_and_open(function, schema, "verdict_authorize_id"))
		return NULL;

	/* No trace of them is left in the plan; what is done to them must reach it. */
	if (root != NULL)
	{
		record_plan_function_dependency(root, call->funcid);
		record_plan_function_dependency(root, resource->funcid);
	}
	return (Node *) makeFuncExpr(function, BOOLOID,
								 list_make5(actor, action, type, id, consistency), InvalidOid,
								 call->inputcollid, COERCE_EXPLICIT_CALL);
}

Datum
verdict_sql_authorize_support(PG_FUNCTION_ARGS)
{
	Node *request = (Node *) PG_GETARG_POINTER(0);
	Node *answer = NULL;

	if (IsA(request, SupportRequestSimplify))
	{
		SupportRequestSimplify *simplify = (SupportRequestSimplify *) request;

		answer = simplify_authorize(simplify->root, simplify->fcall);
	}
	PG_RETURN_POINTER(answer);
}
