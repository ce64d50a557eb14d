/*
 * trigger_template.h
 *		The fact that a trigger's arguments make of a row.
 *
 * A predicate, then a template for each argument of the fact:
 *
 *	Type:text{column}text	an identity: the type stands in the template, the id
 *							is put together
 *	{column}				the value of the column: identity, string, integer,
 *							boolean
 *	text{column}text		a string
 */
#ifndef VERDICT_PG_TRIGGER_TEMPLATE_H
#define VERDICT_PG_TRIGGER_TEMPLATE_H

#include "verdict.h"

#include "executor/tuptable.h"
#include "utils/rel.h"

typedef struct verdict_fact_template verdict_fact_template;

/*
 * Takes the arguments of a trigger apart, over the columns that a table has now.
 * The result is allocated in the current context and must not outlive a change of
 * the table.  Raises, with the number of the argument, the column and the trigger:
 * 22023 for a template or predicate that cannot be read, 42703 for a column that
 * does not exist, 42804 for one whose type has no fixed text, 0A000 for a virtual
 * generated column.
 */
extern verdict_fact_template *verdict_template_parse(const Trigger *trigger, Relation relation);

/*
 * The fact of a row of that table; NULL when a column that it needs is NULL.  It
 * lives until the next row and as long as the current context.  Raises 22023 when
 * the id of an identity would be empty.
 */
extern const verdict_fact *
verdict_template_fill(verdict_fact_template *source, TupleTableSlot *row);

#endif /* VERDICT_PG_TRIGGER_TEMPLATE_H */
