/*
 * read_ahead.c
 *		Checks of several rows together, where no list is to be had.
 *
 * The executor shows a condition one row at a time, and so single checks would be
 * made one after the other.  Where an instance has refused the list that would
 * answer a check, the scan of its table gets a node on top, "Verdict Read Ahead": it
 * takes a bunch of rows from the scan, has their checks made with several calls in
 * flight, and then hands the rows on one by one.
 *
 * Invariants
 *	- Conditions are evaluated in the order that the planner gave them: those before
 *	  the check stay with the scan, the check and those after it go to the node.  So
 *	  what a security barrier hides is neither shown to a condition behind it nor
 *	  asked for, and no condition is evaluated before its turn.
 *	- The node decides nothing.  It makes answers known to decision.c, and each row's
 *	  condition asks for its answer there; what was not read ahead, is known no more,
 *	  or failed, is asked for by the condition, which fails or denies as ever.
 *	- Each bunch is twice as long as the one before, up to a bound: a statement that
 *	  stops early has asked for no more than about twice of what it looked at, and
 *	  the memory that is taken does not depend on the number of rows.
 *	- A plan with the node is right also where lists are to be had again: the node
 *	  asks for nothing then (verdict_decide_ahead()).
 *
 * Not for named cursors, whose WHERE CURRENT OF needs a scan that has not gone on;
 * not for the inner side of a loop that looks rows up by the outer one's.
 */
#include "postgres.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "planner.h"
#include "read_ahead.h"

/* The most rows of a bunch: several times of what is in flight, as its end runs dry. */
#define LONGEST_BUNCH (8 * VERDICT_MAX_IN_FLIGHT)

/* Rows looked at for one that is found, as the planner takes a check. */
#define CHECKS_PER_ROW 3

/* The arguments of verdict_authorize_id(), and what makes it unnecessary. */
enum check_expression
{
	CHECK_ACTOR,
	CHECK_ACTION,
	CHECK_TYPE,
	CHECK_ID,
	CHECK_CONSISTENCY,
	CHECK_ARGUMENTS,
	CHECK_SETTLED = CHECK_ARGUMENTS,
	CHECK_EXPRESSIONS
};

typedef struct read_ahead_state
{
	CustomScanState scan;
	ExprState *expressions[CHECK_EXPRESSIONS];
	Oid id_type;
	TupleTableSlot *rows[LONGEST_BUNCH]; /* made when needed */
	int room;							 /* rows of the next bunch */
	int count;							 /* rows of this one */
	int next;							 /* the next to be handed on */
	bool ended;							 /* the scan has no more */
	bool given_up;						 /* on reading ahead */
	MemoryContext bunch;				 /* what asking takes, until the next bunch */
	uint64 asked;						 /* checks, for EXPLAIN */
} read_ahead_state;

static set_rel_pathlist_hook_type previous_pathlist = NULL;
static planner_hook_type previous_planner = NULL;
static bool for_cursor = false; /* what is being planned */

static Plan *make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					   List *clauses, List *children);
static Node *make_state(CustomScan *scan);
static void begin(CustomScanState *node, EState *estate, int flags);
static TupleTableSlot *next_row(CustomScanState *node);
static void end(CustomScanState *node);
static void rescan(CustomScanState *node);
static void explain(CustomScanState *node, List *ancestors, ExplainState *output);

static const CustomPathMethods path_methods = {
	.CustomName = "Verdict Read Ahead",
	.PlanCustomPath = make_plan,
};

static const CustomScanMethods scan_methods = {
	.CustomName = "Verdict Read Ahead",
	.CreateCustomScanState = make_state,
};

static const CustomExecMethods execute_methods = {
	.CustomName = "Verdict Read Ahead",
	.BeginCustomScan = begin,
	.ExecCustomScan = next_row,
	.EndCustomScan = end,
	.ReScanCustomScan = rescan,
	.ExplainCustomScan = explain,
};

/* ---- planning ---- */

/* Whether an argument of a check is the same for all rows. */
static bool
is_same_for_all(Node *argument)
{
	return !contain_var_clause(argument) && !contain_subplans(argument);
}

/* Whether an expression is a check whose list was refused. */
static bool
is_check_without_list(Node *expression)
{
	FuncExpr *call = (FuncExpr *) expression;
	verdict_question question;

	if (!IsA(expression, FuncExpr) || list_length(call->args) != CHECK_ARGUMENTS ||
		!verdict_is_as_made(call->funcid, "verdict_sql_authorize_id") ||
		!verdict_is_identifier_constant(list_nth(call->args, CHECK_TYPE)) ||
		!is_same_for_all(list_nth(call->args, CHECK_ACTOR)) ||
		!is_same_for_all(list_nth(call->args, CHECK_ACTION)) ||
		!is_same_for_all(list_nth(call->args, CHECK_CONSISTENCY)) ||
		contain_subplans(list_nth(call->args, CHECK_ID)) ||
		!verdict_known_piece(list_nth(call->args, CHECK_TYPE), &question.type))
		return false;
	if (!verdict_known_piece(list_nth(call->args, CHECK_ACTOR), &question.actor) ||
		!verdict_known_piece(list_nth(call->args, CHECK_ACTION), &question.action))
	{
		memset(&question.actor, 0, sizeof(question.actor));
		memset(&question.action, 0, sizeof(question.action));
	}
	return verdict_lists_refused(&question);
}

/*
 * What the node evaluates for the check of a condition, as enum check_expression has
 * it; NIL when there is no check whose list was refused.  The condition is the check
 * itself, or several by OR, as policies of one command are joined: then one that is
 * true makes the checks after it unnecessary.
 */
static List *
expressions_of_check(Node *condition)
{
	List *before = NIL;
	ListCell *cell;
	Expr *settled;

	if (is_check_without_list(condition))
		return lappend(list_copy(((FuncExpr *) condition)->args), makeBoolConst(false, false));
	if (!is_orclause(condition))
		return NIL;
	foreach (cell, ((BoolExpr *) condition)->args)
	{
		Node *part = lfirst(cell);

		if (is_check_without_list(part))
		{
			if (before == NIL)
				settled = (Expr *) makeBoolConst(false, false);
			else
				settled = list_length(before) == 1 ? linitial(before) : make_orclause(before);
			return lappend(list_copy(((FuncExpr *) part)->args), settled);
		}
		if (contain_subplans(part))
			return NIL;
		before = lappend(before, part);
	}
	return NIL;
}

/*
 * The conditions of a table with a check whose list was refused, and what the node
 * evaluates for each.  None when a condition is volatile, which would notice that
 * more rows are looked at.
 */
static List *
conditions_without_list(const RelOptInfo *rel, List **expressions)
{
	List *conditions = NIL;
	ListCell *cell;

	*expressions = NIL;
	foreach (cell, rel->baserestrictinfo)
	{
		RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);
		Node *condition = (Node *) restriction->clause;
		List *evaluated = NIL;

		/* One without columns is tested once for all rows. */
		if (!restriction->pseudoconstant)
			evaluated = expressions_of_check(condition);
		if (evaluated != NIL)
		{
			conditions = lappend(conditions, condition);
			*expressions = lappend(*expressions, evaluated);
		}
	}
	if (conditions != NIL)
	{
		foreach (cell, rel->baserestrictinfo)
		{
			if (contain_volatile_functions((Node *) lfirst_node(RestrictInfo, cell)->clause))
				return NIL;
		}
	}
	return conditions;
}

/* What the checks of a condition are thought to cost, made one after the other. */
static Cost
cost_of_checks(PlannerInfo *root, const RelOptInfo *rel, Node *condition)
{
	QualCost cost;

	cost_qual_eval_node(&cost, condition, root);
	return cost.per_tuple * Min(rel->rows * CHECKS_PER_ROW, rel->tuples);
}

/* Whether a path reads the table itself, without rows of another one. */
static bool
is_plain_scan(const Path *path)
{
	switch (path->pathtype)
	{
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
			return path->param_info == NULL && !path->parallel_aware;
		default:
			return false;
	}
}

/*
 * The node on top of a path, "saved" cheaper.  "private" is what make_plan() is to
 * find again: conditions with a check, what is evaluated for each, and what the scan
 * has to give.
 */
static Path *
read_ahead_of(RelOptInfo *rel, Path *child, Cost saved, List *private)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = child->pathtarget;
	path->path.rows = child->rows;
	path->path.startup_cost = child->startup_cost;
	path->path.total_cost = Max(child->total_cost - saved, child->startup_cost);
	path->path.pathkeys = child->pathkeys;
	verdict_copy_disabled(&path->path, child);
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make1(child);
	path->custom_private = private;
	path->methods = &path_methods;
	return &path->path;
}

/*
 * Puts the node on top of the paths of a table, once for each condition.  In place of
 * them: with the node a path is never worse.
 */
static void
consider(PlannerInfo *root, RelOptInfo *rel, Index index, RangeTblEntry *entry)
{
	List *conditions;
	List *expressions;
	ListCell *condition;
	ListCell *cell;

	if (previous_pathlist != NULL)
		previous_pathlist(root, rel, index, entry);
	if (for_cursor || !verdict_setting_prefetch || entry->rtekind != RTE_RELATION)
		return;
	conditions = conditions_without_list(rel, &expressions);
	foreach (condition, conditions)
	{
		Cost cost = cost_of_checks(root, rel, lfirst(condition));

		foreach (cell, rel->pathlist)
		{
			Path *path = lfirst(cell);

			if (is_plain_scan(path) ||
				(IsA(path, CustomPath) && ((CustomPath *) path)->methods == &path_methods))
				lfirst(cell) =
					read_ahead_of(rel, path, cost - cost / VERDICT_MAX_IN_FLIGHT,
								  list_make3(conditions, expressions, rel->reltarget->exprs));
		}
	}
}

/* The columns that expressions use, each once, as a target list. */
static List *
columns_of(List *expressions)
{
	List *columns = NIL;
	List *targets = NIL;
	ListCell *cell;

	foreach (cell, pull_var_clause((Node *) expressions, PVC_RECURSE_PLACEHOLDERS))
		columns = list_append_unique(columns, lfirst(cell));
	foreach (cell, columns)
		targets =
			lappend(targets, makeTargetEntry(copyObject(lfirst(cell)),
											 (AttrNumber) list_length(targets) + 1, NULL, false));
	return targets;
}

static Plan *
make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		  List *children)
{
	CustomScan *scan = makeNode(CustomScan);
	Plan *child = linitial(children);
	List *conditions = linitial(path->custom_private);
	List *found = NIL;
	int place;

	(void) clauses;
	/* What is tested once for all rows is tested above this node, too. */
	if (IsA(child, Result) && outerPlan(child) != NULL)
		child = outerPlan(child);
	/* The first condition of another such node is its own. */
	for (place = IsA(child, CustomScan) ? 1 : 0; place < list_length(child->qual); place++)
	{
		for (int i = 0; i < list_length(conditions) && found == NIL; i++)
		{
			if (equal(list_nth(conditions, i), list_nth(child->qual, place)))
				found = list_nth(lsecond(path->custom_private), i);
		}
		if (found != NIL)
			break;
	}
	if (found == NIL)
		elog(ERROR, "a check to be read ahead is not among the conditions of its scan");

	child->total_cost -= cost_of_checks(root, rel, list_nth(child->qual, place));
	child->total_cost = Max(child->total_cost, child->startup_cost);
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = list_copy_tail(child->qual, place);
	child->qual = list_truncate(list_copy(child->qual), place);
	/* No relation of its own: the scan below has it, also when a row is looked at again. */
	scan->scan.scanrelid = 0;
	scan->flags = path->flags;
	scan->custom_plans = list_make1(child);
	scan->custom_exprs = copyObject(found);
	scan->custom_scan_tlist =
		columns_of(list_make3(lthird(path->custom_private), tlist, scan->scan.plan.qual));
	child->targetlist = copyObject(scan->custom_scan_tlist);
	scan->methods = &scan_methods;
	return &scan->scan.plan;
}

static PlannedStmt *
plan(Query *query, const char *text, int options, ParamListInfo parameters)
{
	bool outer = for_cursor;
	PlannedStmt *planned;

	/* Set for DECLARE, and for the named cursors of PL/pgSQL. */
	for_cursor = (options & CURSOR_OPT_FAST_PLAN) != 0;
	PG_TRY();
	{
		if (previous_planner != NULL)
			planned = previous_planner(query, text, options, parameters);
		else
			planned = standard_planner(query, text, options, parameters);
	}
	PG_FINALLY();
	{
		for_cursor = outer;
	}
	PG_END_TRY();
	return planned;
}

/* ---- executing ---- */

static Node *
make_state(CustomScan *scan)
{
	read_ahead_state *state = palloc0(sizeof(*state));

	(void) scan;
	NodeSetTag(state, T_CustomScanState);
	state->scan.methods = &execute_methods;
	state->room = 1;
	return (Node *) state;
}

static void
begin(CustomScanState *node, EState *estate, int flags)
{
	read_ahead_state *state = (read_ahead_state *) node;
	CustomScan *scan = (CustomScan *) node->ss.ps.plan;

	node->custom_ps = list_make1(ExecInitNode(linitial(scan->custom_plans), estate, flags));
	for (int i = 0; i < CHECK_EXPRESSIONS; i++)
		state->expressions[i] = ExecInitExpr(list_nth(scan->custom_exprs, i), &node->ss.ps);
	state->id_type = exprType(list_nth(scan->custom_exprs, CHECK_ID));
	state->bunch =
		AllocSetContextCreate(CurrentMemoryContext, "verdict read ahead", ALLOCSET_DEFAULT_SIZES);
}

/* An argument of the check as a text; false when it is NULL. */
static bool
piece_of_argument(read_ahead_state *state, int number, verdict_piece *piece)
{
	bool is_null;
	Datum value =
		ExecEvalExpr(state->expressions[number], state->scan.ss.ps.ps_ExprContext, &is_null);
	struct varlena *text;

	if (is_null)
		return false;
	text = PG_DETOAST_DATUM_PACKED(value);
	piece->bytes = VARDATA_ANY(text);
	piece->size = VARSIZE_ANY_EXHDR(text);
	return true;
}

/*
 * Has the checks of a bunch made, as far as they will be.  Arguments with which a
 * check is NULL or an error are left to it.
 */
static void
ask_ahead(read_ahead_state *state)
{
	ExprContext *context = state->scan.ss.ps.ps_ExprContext;
	verdict_id *ids = palloc(state->count * sizeof(*ids));
	size_t count = 0;
	verdict_question question;
	verdict_consistency consistency = VERDICT_CONSISTENCY_DEFAULT;
	verdict_read read;
	bool is_null;
	Datum value;

	for (int i = 0; i < state->count; i++)
	{
		context->ecxt_scantuple = state->rows[i];
		if (DatumGetBool(ExecEvalExpr(state->expressions[CHECK_SETTLED], context, &is_null)) &&
			!is_null)
			continue;
		value = ExecEvalExpr(state->expressions[CHECK_ID], context, &is_null);
		if (!is_null && verdict_id_of_value(state->id_type, value, &ids[count]))
			count++;
	}
	if (count < 2 || !piece_of_argument(state, CHECK_ACTOR, &question.actor) ||
		!piece_of_argument(state, CHECK_ACTION, &question.action) || question.action.size == 0 ||
		!piece_of_argument(state, CHECK_TYPE, &question.type))
		return;
	value = ExecEvalExpr(state->expressions[CHECK_CONSISTENCY], context, &is_null);
	if (!is_null)
		consistency = verdict_consistency_of(PG_DETOAST_DATUM_PACKED(value));

	verdict_read_begin(consistency, &read);
	state->asked += verdict_decide_ahead(&read, &question, ids, count, &state->given_up);
}

/* Takes the next rows from the scan; false when there are none. */
static bool
fetch_bunch(read_ahead_state *state)
{
	CustomScanState *node = &state->scan;
	EState *estate = node->ss.ps.state;
	MemoryContext caller;

	state->count = 0;
	state->next = 0;
	while (!state->ended && state->count < state->room)
	{
		TupleTableSlot *row = ExecProcNode(linitial(node->custom_ps));

		if (TupIsNull(row))
		{
			state->ended = true;
			break;
		}
		if (state->rows[state->count] == NULL)
		{
			caller = MemoryContextSwitchTo(estate->es_query_cxt);
			state->rows[state->count] = ExecInitExtraTupleSlot(
				estate, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor, &TTSOpsVirtual);
			MemoryContextSwitchTo(caller);
		}
		ExecCopySlot(state->rows[state->count++], row);
	}
	if (state->given_up)
		state->room = 1;
	else if (state->room < LONGEST_BUNCH)
		state->room *= 2;

	if (state->count > 1)
	{
		caller = MemoryContextSwitchTo(state->bunch);
		ask_ahead(state);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(state->bunch);
	}
	return state->count > 0;
}

static TupleTableSlot *
next_row(CustomScanState *node)
{
	read_ahead_state *state = (read_ahead_state *) node;
	ExprContext *context = node->ss.ps.ps_ExprContext;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(context);
		if (state->next == state->count && !fetch_bunch(state))
			return NULL;
		context->ecxt_scantuple = state->rows[state->next++];
		if (ExecQual(node->ss.ps.qual, context))
			return node->ss.ps.ps_ProjInfo != NULL ? ExecProject(node->ss.ps.ps_ProjInfo)
												   : context->ecxt_scantuple;
		InstrCountFiltered1(node, 1);
	}
}

static void
rescan(CustomScanState *node)
{
	read_ahead_state *state = (read_ahead_state *) node;
	PlanState *child = linitial(node->custom_ps);

	state->room = 1;
	state->count = 0;
	state->next = 0;
	state->ended = false;
	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(child, node->ss.ps.chgParam);
	if (child->chgParam == NULL)
		ExecReScan(child);
}

static void
end(CustomScanState *node)
{
	ExecEndNode(linitial(node->custom_ps));
}

static void
explain(CustomScanState *node, List *ancestors, ExplainState *output)
{
	(void) ancestors;
	if (output->analyze)
		ExplainPropertyInteger("Checks Read Ahead", NULL,
							   (int64) ((read_ahead_state *) node)->asked, output);
}

void
verdict_read_ahead_init(void)
{
	RegisterCustomScanMethods(&scan_methods);
	previous_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = consider;
	previous_planner = planner_hook;
	planner_hook = plan;
}
