/*
 * option.h
 *		The options of servers and user mappings: one table, read by the
 *		validator and by whoever makes a client.
 */
#ifndef VERDICT_PG_OPTION_H
#define VERDICT_PG_OPTION_H

#include "verdict.h"

#include "foreign/foreign.h"

typedef struct verdict_server_options
{
	verdict_client_options client;
	int batch_size; /* most changes of a batch that is not sent at once */
} verdict_server_options;

/*
 * The options of a server and a user mapping.  Strings belong to the current
 * memory context, or to the lists.  Raises, as the validator does, when an option
 * cannot be used: catalogs may hold what no validator has seen.
 */
extern void verdict_options_read(const ForeignServer *server, const UserMapping *mapping,
								 verdict_server_options *options);

#endif /* VERDICT_PG_OPTION_H */
