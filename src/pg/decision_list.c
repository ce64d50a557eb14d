/*
 * decision_list.c
 *		Whole lists of what is allowed, kept from one statement for the next.
 *
 * Invariants
 *	- A list is a memory context below "lists"; it goes with its last reference,
 *	  of which being kept is one.
 *	- A list that is kept is never changed.
 *	- What is kept, with what only statements still refer to, is never made more
 *	  than KEPT_MEMORY by keeping another list.
 */
#include "decision_list.h"

#include "decision_internal.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

/* How much may be kept: in bytes, and in lists, which are searched one by one. */
#define KEPT_MEMORY ((Size) 16 * 1024 * 1024)
#define KEPT_LISTS 256

struct verdict_list
{
	MemoryContext context;
	int references;
	bool all; /* every resource of the type is allowed */
	verdict_decision_map *map;

	/* Of a list that is kept. */
	dlist_node node;
	const verdict_client *client;
	uint32 hash;
	verdict_question question;
	verdict_revision revision;
};

static MemoryContext lists = NULL;
static dlist_head kept_lists = DLIST_STATIC_INIT(kept_lists); /* the one used last is first */
static int kept_count = 0;

verdict_list *
verdict_list_make(void)
{
	MemoryContext context;
	MemoryContext caller;
	verdict_list *list;

	if (lists == NULL)
		lists = AllocSetContextCreate(TopMemoryContext, "verdict lists", ALLOCSET_SMALL_SIZES);
	context = AllocSetContextCreate(lists, "verdict list", ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(context);
	PG_TRY();
	{
		list = palloc0(sizeof(*list));
		list->context = context;
		list->references = 1;
		list->map = verdict_map_create();
	}
	PG_CATCH();
	{
		MemoryContextDelete(context);
		PG_RE_THROW();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	return list;
}

void
verdict_list_release(verdict_list *list)
{
	if (--list->references == 0)
		MemoryContextDelete(list->context);
}

verdict_decision_map *
verdict_list_map(verdict_list *list)
{
	return list->map;
}

void
verdict_list_set_all(verdict_list *list)
{
	list->all = true;
}

verdict_known
verdict_list_find(verdict_list *list, const verdict_id *id)
{
	if (list->all || verdict_map_find(list->map, id) == VERDICT_KNOWN_YES)
		return VERDICT_KNOWN_YES;
	return VERDICT_KNOWN_NO;
}

Size
verdict_lists_size(void)
{
	return lists != NULL ? MemoryContextMemAllocated(lists, true) : 0;
}

static void
stop_keeping(verdict_list *list)
{
	dlist_delete(&list->node);
	kept_count--;
	verdict_list_release(list);
}

static verdict_list *
find_kept(const verdict_decision_set *set)
{
	dlist_iter at;

	dlist_foreach(at, &kept_lists)
	{
		verdict_list *list = dlist_container(verdict_list, node, at.cur);

		if (list->hash == set->hash && list->client == set->client &&
			verdict_question_equal(&list->question, &set->question))
			return list;
	}
	return NULL;
}

/* Makes room for a list that is there already; false when there is too little. */
static bool
make_room(const verdict_list *list)
{
	if (MemoryContextMemAllocated(list->context, true) > KEPT_MEMORY)
		return false;
	while (kept_count > 0 && (kept_count >= KEPT_LISTS || verdict_lists_size() > KEPT_MEMORY))
		stop_keeping(dlist_tail_element(verdict_list, node, &kept_lists));
	return verdict_lists_size() <= KEPT_MEMORY;
}

void
verdict_list_keep(const verdict_decision_set *set)
{
	verdict_list *list = find_kept(set);

	if (list != NULL)
		stop_keeping(list);
	list = set->list;
	if (set->session->served.shards == 0 || !make_room(list))
		return;
	list->client = set->client;
	list->hash = set->hash;
	list->question.actor = verdict_piece_copy(list->context, set->question.actor);
	list->question.action = verdict_piece_copy(list->context, set->question.action);
	list->question.type = verdict_piece_copy(list->context, set->question.type);
	list->revision = set->session->served;
	list->references++;
	kept_count++;
	dlist_push_head(&kept_lists, &list->node);
}

bool
verdict_list_is_kept(const verdict_decision_set *set)
{
	return find_kept(set) != NULL;
}

static bool
same_revision(const verdict_revision *left, const verdict_revision *right)
{
	return verdict_revision_covers(left, right) && verdict_revision_covers(right, left);
}

verdict_list *
verdict_list_take(const verdict_decision_set *set)
{
	const verdict_session *session = set->session;
	verdict_list *list;

	/* Not below what the session has observed, which eventual reads may be served. */
	if (session->inconsistent || !same_revision(&session->served, &session->observed))
		return NULL;
	list = find_kept(set);
	if (list == NULL || !same_revision(&list->revision, &session->served))
		return NULL;
	dlist_move_head(&kept_lists, &list->node);
	list->references++;
	return list;
}

void
verdict_lists_drop(const verdict_client *client)
{
	dlist_mutable_iter at;

	dlist_foreach_modify(at, &kept_lists)
	{
		verdict_list *list = dlist_container(verdict_list, node, at.cur);

		if (list->client == client)
			stop_keeping(list);
	}
}
