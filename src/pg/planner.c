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
 * verdict_resource_ids() in a statement that reads tables becomes a sub-select of
 * its own, evaluated once: as part of a condition it would be evaluated for each
 * row where no index serves.
 *
 * To estimate how selective a condition like "x = function(constants)" is, or to leave
 * partitions out, the planner evaluates a STABLE function, also for EXPLAIN.  A call
 * of this library's is kept from that by the value of a sub-select among its
 * arguments, which is known to nobody before the statement runs.
 *
 * Nothing here asks an instance or needs one.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/subselect.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "planner.h"

PG_FUNCTION_INFO_V1(verdict_sql_read_support);
PG_FUNCTION_INFO_V1(verdict_sql_list_support);

/* By name it could be anybody's. */
bool
verdict_is_as_made(Oid function, const char *symbol)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool matches = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId &&
		!((Form_pg_proc) GETSTRUCT(tuple))->prosecdef &&
		heap_attisnull(tuple, Anum_pg_proc_proconfig, NULL) &&
		heap_attisnull(tuple, Anum_pg_proc_proacl, NULL))
	{
		bool is_null;
		Datum source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &is_null);
		char *name = is_null ? NULL : TextDatumGetCString(source);

		matches = name != NULL && strcmp(name, symbol) == 0;
	}
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

bool
verdict_is_identifier_constant(Node *node)
{
	Const *constant = (Const *) node;
	struct varlena *text;

	if (!IsA(node, Const) || constant->consttype != TEXTOID || constant->constisnull)
		return false;
	text = PG_DETOAST_DATUM_PACKED(constant->constvalue);
	return verdict_is_identifier(VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text));
}

/*
 * verdict_authorize_id() in the schema of another function, or InvalidOid.  Whoever
 * plans may use what was made with that one, and need not have USAGE on the schema.
 */
static Oid
find_authorize_id(Oid other, Oid actor_type)
{
	Oid types[] = {actor_type, TEXTOID, TEXTOID, ANYELEMENTOID, TEXTOID};

	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						   CStringGetDatum("verdict_authorize_id"),
						   PointerGetDatum(buildoidvector(types, lengthof(types))),
						   ObjectIdGetDatum(get_func_namespace(other)));
}

/* The call of verdict_authorize_id() that does the same, or NULL. */
static FuncExpr *
simplify_authorize(PlannerInfo *root, FuncExpr *call)
{
	Node *actor;
	Node *action;
	FuncExpr *resource;
	Node *consistency;
	Node *type;
	Node *id;
	Oid function;

	if (list_length(call->args) != 4)
		return NULL;
	actor = linitial(call->args);
	action = lsecond(call->args);
	resource = lthird(call->args);
	consistency = lfourth(call->args);
	if (!IsA(resource, FuncExpr) || list_length(resource->args) != 2 ||
		!verdict_is_as_made(resource->funcid, "verdict_sql_identity_make") ||
		!verdict_is_as_made(call->funcid, "verdict_sql_authorize"))
		return NULL;
	type = linitial(resource->args);
	id = lsecond(resource->args);
	if (!verdict_is_identifier_constant(type) || !is_plain_id(exprType(id)) ||
		contain_volatile_functions((Node *) call->args))
		return NULL;

	function = find_authorize_id(call->funcid, exprType(actor));
	if (!OidIsValid(function) || !verdict_is_as_made(function, "verdict_sql_authorize_id"))
		return NULL;

	/* No trace of them is left in the plan; what is done to them must reach it. */
	if (root != NULL)
	{
		record_plan_function_dependency(root, call->funcid);
		record_plan_function_dependency(root, resource->funcid);
	}
	return makeFuncExpr(function, BOOLOID, list_make5(actor, action, type, id, consistency),
						InvalidOid, call->inputcollid, COERCE_EXPLICIT_CALL);
}

/* Whether a node needs something of the query around it. */
static bool
depends_on_query(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Const:
			return false;
		case T_Param:
			return ((Param *) node)->paramkind != PARAM_EXTERN;
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_SubscriptingRef:
		case T_FieldSelect:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_CoerceToDomain:
		case T_CollateExpr:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_BoolExpr:
		case T_SQLValueFunction:
		case T_List:
			return expression_tree_walker(node, depends_on_query, context);
		default:
			return true;
	}
}

/*
 * Whether the query is one whose expressions are evaluated once as they are, and not by
 * the planner: it reads no table and has no LIMIT.
 */
static bool
is_bare(const Query *query)
{
	RangeTblRef *only;

	if (query->limitCount != NULL || query->limitOffset != NULL)
		return false;
	if (query->jointree == NULL || query->jointree->fromlist == NIL)
		return true;
	if (list_length(query->jointree->fromlist) != 1)
		return false;
	only = linitial(query->jointree->fromlist);
	return IsA(only, RangeTblRef) && rt_fetch(only->rtindex, query->rtable)->rtekind == RTE_RESULT;
}

/*
 * Whether the sub-selects among the expressions of a query have been planned, or are
 * being planned now: one that is put there would stay as it is.  Its expressions are
 * looked at after that when a relation's conditions become those of its children, and
 * when a condition of an EXISTS is tried as one of IN, which the planner does with the
 * root of the query around it.
 */
static bool
has_planned_sub_selects(const PlannerInfo *root)
{
	ListCell *cell;

	if (root->simple_rel_array != NULL)
		return true;
	foreach (cell, root->glob->subroots)
	{
		if (lfirst_node(PlannerInfo, cell)->parent_root == root)
			return true;
	}
	return false;
}

/*
 * The value of a sub-select without FROM around an expression that depends on nothing
 * of the query.
 */
static Node *
select_once(PlannerInfo *root, Expr *expression)
{
	Query *query = makeNode(Query);
	SubLink *link;
	PlannerInfo *subroot;
	Path *path;
	Param *value;

	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->jointree = makeFromExpr(NIL, NULL);
	query->targetList =
		list_make1(makeTargetEntry(copyObject(expression), 1, pstrdup("once"), false));

	if (!has_planned_sub_selects(root))
	{
		link = makeNode(SubLink);
		link->subLinkType = EXPR_SUBLINK;
		link->subselect = (Node *) query;
		link->location = -1;
		/* Sub-selects are looked for after this, in what says that it has some. */
		root->parse->hasSubLinks = true;
		return (Node *) link;
	}

	subroot = verdict_plan_subquery(root, query);
	path = fetch_upper_rel(subroot, UPPERREL_FINAL, NULL)->cheapest_total_path;
	value = SS_make_initplan_output_param(root, exprType((Node *) expression),
										  exprTypmod((Node *) expression),
										  exprCollation((Node *) expression));
	SS_make_initplan_from_plan(root, subroot, create_plan(subroot, path), value);
	return (Node *) value;
}

/* Whether the planner could evaluate the call, or would have it evaluated once a row. */
static bool
needs_keeping(PlannerInfo *root, const FuncExpr *call)
{
	return root != NULL && root->parse != NULL && !is_bare(root->parse) &&
		   !depends_on_query((Node *) call->args, NULL) &&
		   !expression_returns_set((Node *) call->args) &&
		   !contain_volatile_functions((Node *) call->args);
}

/* The call with its last argument, the consistency, in a sub-select; or NULL. */
static Node *
keep_from_planner(PlannerInfo *root, const FuncExpr *call)
{
	FuncExpr *kept;

	if (!needs_keeping(root, call))
		return NULL;
	kept = makeNode(FuncExpr);
	*kept = *call;
	kept->args = list_truncate(list_copy(call->args), list_length(call->args) - 1);
	kept->args = lappend(kept->args, select_once(root, llast(call->args)));
	return (Node *) kept;
}

/* Support of the functions that check and of verdict_get_policy(). */
Datum
verdict_sql_read_support(PG_FUNCTION_ARGS)
{
	Node *request = (Node *) PG_GETARG_POINTER(0);
	Node *answer = NULL;

	if (IsA(request, SupportRequestSimplify))
	{
		SupportRequestSimplify *simplify = (SupportRequestSimplify *) request;
		FuncExpr *by_id = simplify_authorize(simplify->root, simplify->fcall);

		answer = keep_from_planner(simplify->root, by_id != NULL ? by_id : simplify->fcall);
		if (answer == NULL)
			answer = (Node *) by_id;
	}
	PG_RETURN_POINTER(answer);
}

bool
verdict_known_piece(Node *argument, verdict_piece *piece)
{
	if (IsA(argument, Const) && !((Const *) argument)->constisnull)
	{
		struct varlena *text = PG_DETOAST_DATUM_PACKED(((Const *) argument)->constvalue);

		piece->bytes = VARDATA_ANY(text);
		piece->size = VARSIZE_ANY_EXHDR(text);
		return true;
	}
	if (IsA(argument, FuncExpr) && verdict_setting_actor != NULL &&
		verdict_is_as_made(((FuncExpr *) argument)->funcid, "verdict_sql_actor"))
	{
		piece->bytes = verdict_setting_actor;
		piece->size = strlen(verdict_setting_actor);
		return true;
	}
	return false;
}

/* How many resources a list will have, by the last one; negative when not known. */
static double
expected_resources(const FuncExpr *call)
{
	verdict_question question;

	if (list_length(call->args) < 3 ||
		!verdict_known_piece(linitial(call->args), &question.actor) ||
		!verdict_known_piece(lsecond(call->args), &question.action) ||
		!verdict_known_piece(lthird(call->args), &question.type))
		return -1;
	return verdict_decisions_expected(&question);
}

/* Support of verdict_list_resources() and verdict_resource_ids(). */
Datum
verdict_sql_list_support(PG_FUNCTION_ARGS)
{
	Node *request = (Node *) PG_GETARG_POINTER(0);
	Node *answer = NULL;

	if (IsA(request, SupportRequestSimplify))
	{
		SupportRequestSimplify *simplify = (SupportRequestSimplify *) request;

		if (!simplify->fcall->funcretset && needs_keeping(simplify->root, simplify->fcall))
			answer = select_once(simplify->root, (Expr *) simplify->fcall);
	}
	else if (IsA(request, SupportRequestRows))
	{
		SupportRequestRows *rows = (SupportRequestRows *) request;

		if (IsA(rows->node, FuncExpr))
		{
			rows->rows = expected_resources((FuncExpr *) rows->node);
			if (rows->rows >= 0)
				answer = request;
		}
	}
	PG_RETURN_POINTER(answer);
}
