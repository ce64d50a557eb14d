/*
 * options.h
 *		The command line of verdict-dev.
 */
#ifndef VERDICT_SERVER_OPTIONS_H
#define VERDICT_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct options
{
	const char *listen;
	const char *admin;	/* NULL = no admin address */
	const char *data;	/* SQLite file; NULL = in memory */
	const char *policy; /* file to load at the start */
	char **api_keys;	/* own memory */
	size_t api_key_count;
	char *tls_certificate; /* PEM text, own memory; NULL = plain HTTP */
	char *tls_key;
	char *path_prefix; /* "" or "/some/prefix"; own memory */
	uint32_t max_rows;
	uint32_t max_page;
	uint32_t max_batch;
	size_t max_request_bytes;
	unsigned idle_seconds;
	/* Of an instance of several nodes; replicas 0 = one that stands alone. */
	int replicas;
	int64_t lag_ms;
	int shards;
	int sync;
	bool exit_with_parent;
} options;

/*
 * Reads the command line.  Ends the program itself: with status 0 after --help,
 * with status 2 and a message on standard error when something is wrong.
 */
extern void options_read(options *options, int argc, char **argv);
extern void options_free(options *options);

/* The whole file as text with a NUL, own memory; NULL with errno set. */
extern char *read_file(const char *path, size_t *size);

#endif /* VERDICT_SERVER_OPTIONS_H */
